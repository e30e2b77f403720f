"""Every kind of output of `convert`, fed back to the engine it is for.

    python -m benchmarks.outputs [CONFIGS...] [--out benchmarks/results/outputs.txt]

CONFIGS are folders of configurations, or single files; without any, the published ones of the
tests. Each is written as it is and under two
schedules, as version 4 and 5 of the Hugging Face spelling, and as options for vLLM and llama.cpp.
Configurations are loaded by transformers, which builds the model without its weights, and the
tables that it rotates by are held against the spec; mlx-lm builds its own layers of them, where
they differ from that the remarks must say so. Options are read back. Printed is a line for each
output that was neither right nor refused with a sentence, the count, and of outputs under the
file's own schedule why they were refused or could not be loaded.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.audit_warnings import configurations
from ropewalk.verbs.converting import To

SCHEDULES: tuple[tuple[str, ...], ...] = ((), ("yarn:2",), ("linear:2",))
TARGETS: tuple[To, ...] = ("hf4", "hf5", "vllm", "llamacpp")


def main() -> int:
    """Run, print and, where asked, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("configs", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    _quiet()
    counts: Counter[tuple[str, str]] = Counter()
    wrong, others = [], []
    folder = tempfile.TemporaryDirectory()
    for path in _files(given.configs or [_published(Path(folder.name))]):
        for schedules in SCHEDULES:
            for to in TARGETS:
                verdict, told = _tried(path, to, schedules)
                counts[to, verdict] += 1
                asked = " ".join(("--to", to, *(f"--rope {each}" for each in schedules)))
                line = f"{path.name} {asked}: {verdict}: {told}"
                if verdict == "wrong":
                    wrong.append(line)
                    print(line, flush=True)
                elif told and not schedules:
                    others.append(line)
    folder.cleanup()
    text = _table(counts, wrong, others)
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    return 1 if wrong else 0


def _quiet() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()


def _published(folder: Path) -> Path:
    """The published configurations of the tests, a file each."""
    for name, config in configurations():
        path = folder / f"{name.replace('/', '-')}.json"
        path.write_text(json.dumps(config), encoding="utf-8")
    return folder


def _files(given: list[Path]) -> Iterator[Path]:
    for path in given:
        yield from sorted(path.glob("*.json")) if path.is_dir() else [path]


def _tried(path: Path, to: To, schedules: tuple[str, ...]) -> tuple[str, str]:
    """(right, refused, wrong or unread, what is wrong) of one output."""
    import ropewalk as rw
    from ropewalk.errors import RopewalkError

    try:
        rw.audit(path)
    except (RopewalkError, ValueError):
        return "unread", ""
    try:
        converted = rw.convert(path, to, rope=list(schedules))
    except RopewalkError as error:
        return "refused", str(error)
    except Exception as error:  # noqa: BLE001 - a traceback is a fault to be listed
        return "wrong", f"{type(error).__name__}: {error}"
    if converted.config is None:
        return "right", ""
    told = _unsaid(_few(converted.config), converted.remarks)
    if told:
        return "wrong", told
    try:
        told = _loaded(_few(converted.config))
    except Exception as error:  # noqa: BLE001 - whatever the engine stops with
        first = str(error).strip().splitlines() or [""]
        before = _opened(_few(json.loads(path.read_text())))
        if before:
            return "not loaded before", before
        return "wrong", f"{type(error).__name__}: {first[0]:.150}"
    return ("wrong", told) if told else ("right", "")


FEW = 8
"""Layers that are built: they hold a period of every pattern."""
_SMALL = {"intermediate_size": 64, "moe_intermediate_size": 32}


def _few(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a smaller model that rotates alike: fewer and narrower layers."""
    if "linear_attn_config" in config:
        # It numbers its layers.
        return config
    found = dict(config)
    total = config.get("num_hidden_layers")
    for key, value in config.items():
        if isinstance(value, dict) and key in ("text_config", "llm_config"):
            found[key] = _few(value)
        elif isinstance(value, list) and isinstance(total, int) and len(value) == total > FEW:
            found[key] = value[:FEW]
    if isinstance(total, int):
        found["num_hidden_layers"] = min(total, FEW)
    small = {key: least for key, least in _SMALL.items() if isinstance(config.get(key), int)}
    return {**found, **small}


def _opened(config: dict[str, Any]) -> str:
    """Why transformers does not load a configuration as it was, "" where it does."""
    try:
        _built(config)
    except Exception as error:  # noqa: BLE001 - whatever the engine stops with
        return f"{type(error).__name__}: {' '.join(str(error).split()):.150}"
    return ""


def _built(config: dict[str, Any]) -> Any:
    """The model that transformers builds of it, without weights."""
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModel

    read = AutoConfig.for_model(**config)
    with init_empty_weights(include_buffers=False):
        return AutoModel.from_config(read)


def _loaded(config: dict[str, Any]) -> str:
    """What transformers rotates otherwise than our reading of the file says, "" for nothing."""
    from ropewalk.dialects.hf import read_config
    from ropewalk.findings.live import compare_tables

    spec = read_config(config)
    if not list(spec.rotary_groups()):
        return ""
    model = _built(config)
    for check in compare_tables(model, spec):
        if not check.agrees:
            return check.sentence
    return ""


def _unsaid(config: dict[str, Any], remarks: tuple[str, ...]) -> str:
    """What mlx-lm rotates otherwise, where the remarks do not say so; "" for nothing."""
    from ropewalk.dialects.hf import read_config
    from ropewalk.rope.frequencies import schedule

    if any("mlx-lm" in remark for remark in remarks):
        return ""
    rope = _rope_of_mlx(config)
    group = next(iter(read_config(config).rotary_groups()), None)
    if rope is None or group is None or 0 not in group[0].layers:
        return ""
    meant = schedule(group[1])
    for pair, (found, frequency) in enumerate(zip(rope, meant.inv_freq, strict=False)):
        if abs(math.remainder(found - POSITION * frequency, 2 * math.pi)) > 1e-3:
            return f"mlx-lm rotates pair {pair} by {found:.6g} at position {POSITION}, unsaid"
    return ""


POSITION = 100


def _rope_of_mlx(config: dict[str, Any]) -> list[float] | None:
    """The angles of the first layer's pairs at POSITION; None where mlx-lm has no such model."""
    import mlx.core as mx
    import numpy as np
    from mlx_lm.utils import _get_classes

    try:
        model, arguments = _get_classes(config)
        layer = model(arguments.from_dict(config)).layers[0].self_attn
        rope = layer.rope
        dims = int(getattr(rope, "dims", None) or rope.dim)
    except (Exception, SystemExit):  # noqa: BLE001 - it stops at, or lacks, many
        return None
    first = np.zeros(dims, dtype=np.float32)
    apart = bool(getattr(rope, "traditional", False))
    first[slice(None, None, 2) if apart else slice(dims // 2)] = 1.0
    turned = np.array(rope(mx.array(first)[None, None, None, :], offset=POSITION))[0, 0, 0]
    cos, sin = (turned[0::2], turned[1::2]) if apart else np.split(turned, 2)
    return [float(angle) for angle in np.arctan2(sin, cos)]


def _table(counts: Counter[tuple[str, str]], wrong: list[str], others: list[str]) -> str:
    verdicts = sorted({verdict for _, verdict in counts})
    lines = ["target    " + "".join(f"{verdict:>20}" for verdict in verdicts)]
    lines += [
        f"{to:10}" + "".join(f"{counts[to, verdict]:>20}" for verdict in verdicts) for to in TARGETS
    ]
    return "\n".join([*lines, "", *wrong, "", "Without --rope:", *others]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
