"""Our rows beside what was measured: `python -m atlas.engines.measured`.

The measurements are `tests/published/engines.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ropewalk.dialects.engines import EngineView, engine_views
from ropewalk.dialects.hf import read_config
from ropewalk.rope.spec import PositionSpec

Json = Mapping[str, Any]

MEASURED = Path(__file__).parents[2] / "tests/published/engines.json"

ROWS = {
    "lmdeploy_0.18.0": "lmdeploy 0.18",
    "mlx_lm_0.32.2": "mlx-lm",
    "sglang_0.5.23": "SGLang 0.5.23",
    "transformers_4.57.6": "transformers 4.57",
    "vllm_0.28.0": "vLLM 0.28",
    "vllm_0.32.0": "vLLM 0.32",
    "vllm_0.32.0_served_at_claimed": "vLLM 0.32",
}
"""The row for each measured release."""

NOT_MEASURED = {
    "transformers_4.57.6 phimoe": "the probe called its rotary class in another way than the model",
    "vllm_0.28.0 dsv2_yarn": "an import failed: the dependencies were those of a later release",
    "vllm_0.28.0 dsv2_yarn_attnf": "an import failed, as above",
}
"""Files for which the measurement itself failed, and why."""

EXPLAINED = {
    "mlx_lm_0.32.2 exaone4": "stops at a sliding_window_pattern that is a number, a key of windows",
    "lmdeploy_0.18.0 olmo3_yarn": "its builder alone was called, for one kind of layer of two",
}
"""Pairs in which our row says something else, and why."""

NEAR = 2e-4
"""Relative, for tables in fp32 read out by their cosines and sines."""


@dataclass(frozen=True)
class Pair:
    """One file and what one engine made of it."""

    engine: str
    name: str
    file: Json
    measured: Json

    @property
    def key(self) -> str:
        """Engine and file."""
        return f"{self.engine} {self.name}"

    @staticmethod
    def config(name: str) -> Json:
        """The configuration of that name."""
        return dict(_data()["configs"][name])


@cache
def _data() -> Json:
    found: Json = json.loads(MEASURED.read_text("utf-8"))
    return found


def pairs() -> Iterator[Pair]:
    """All pairs that were measured."""
    for engine, files in _data()["measured"].items():
        for name, measured in files.items():
            pair = Pair(engine, name, Pair.config(name), measured)
            if pair.key not in NOT_MEASURED:
                yield pair


def missed(pair: Pair) -> str:
    """What our row says otherwise; nothing where it says the same."""
    spec = read_config(pair.file)
    found = engine_views(spec, served=pair.measured.get("served"))
    views = [view for view in found if view.engine == ROWS[pair.engine]]
    stopped = [view for view in views if view.claim is None]
    if "error" in pair.measured:
        return "" if stopped else f"it stops: {pair.measured['error']}"
    if stopped:
        return f"it computes, and the row says: {'; '.join(stopped[0].rules)}"
    for rotation in pair.measured["rotations"]:
        told = [_apart(view, rotation) for view in views]
        if all(told):
            return told[0]
        rows = rotation.get("rows")
        served = pair.measured.get("served", 0)
        short = any("rotary table" in rule for view in views for rule in view.rules)
        if rows and (rows < served) != short:
            return f"the table has {rows} rows for {served} positions, and the row does not say so"
    return _softmax(spec, views, pair.measured)


def _apart(view: EngineView, rotation: Json) -> str:
    theirs = _data()["inv_freq"][rotation["inv_freq"]]
    ours = list(view.inv_freq) + [0.0] * (len(theirs) - len(view.inv_freq))
    if len(ours) != len(theirs):
        return f"{len(theirs)} pairs, ours {len(ours)}"
    off = max(abs(a - b) / max(b, 1e-7) for a, b in zip(ours, theirs, strict=True))
    if off > NEAR:
        return f"a frequency is off by {off:.2g} of itself"
    factor = view.attention_factor or 0.0
    if abs(factor - rotation["factor"]) > NEAR:
        return f"cos and sin times {rotation['factor']:g}, ours {factor:g}"
    return ""


def _softmax(spec: PositionSpec, views: list[EngineView], measured: Json) -> str:
    """The softmax scales, where the engine's modules hold any."""
    heads = {
        view.group: encoding.head_dim
        for view in views
        for group, encoding in spec.rotary_groups()
        if group.name == view.group
    }
    ours = sorted({(v.softmax_factor or 0.0) / math.sqrt(heads[v.group]) for v in views})
    for scale in measured.get("softmax", ()):
        if all(abs(scale - each) > NEAR * scale for each in ours):
            return f"softmax scale {scale:g}, ours {', '.join(f'{each:g}' for each in ours)}"
    return ""


def main() -> None:
    """Print what was missed, with the reasons that are known."""
    found = list(pairs())
    wrong = {pair.key: why for pair in found if (why := missed(pair))}
    print(f"{len(found) - len(wrong)} of {len(found)} pairs as measured")
    for key, why in wrong.items():
        print(f"  {key}: {why} ({EXPLAINED.get(key, 'NOT EXPLAINED')})")
    for key, why in NOT_MEASURED.items():
        print(f"  left out: {key}: {why}")


if __name__ == "__main__":
    main()
