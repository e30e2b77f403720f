"""Every configuration that transformers registers, and each scaling it accepts, read and compared.

Three tables are held against each other: ours rounded to fp32, that of the model's own rotary
module, and the formula in 50 digits. `left_out.toml` lists the types that are not compared, each
with its reason, and what is wrong upstream. `make test` takes a sample, `make conformance` all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.dialects.hf.families import FACTS
from ropewalk.positions.axes import Axial, laid_out
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import LayerGroup, PositionSpec, RotarySpec

pytest.importorskip("transformers")

Array = npt.NDArray[np.float64]

THEIR_ERROR = 1e-6
"""What fp32 arithmetic leaves of a frequency in transformers, relative."""


@dataclass(slots=True)
class Judge:
    """Compares configurations; `exact` and `exact_amplitude` are the formulas in 50 digits.

    `compared` counts the tables.
    """

    upstream: Any
    exact: Callable[..., list[float]]
    exact_amplitude: Callable[..., float]
    compared: int = 0

    def problems(self, model_type: str) -> Iterator[str]:
        """What does not agree, in words; nothing where all does."""
        for name, config in self.upstream.variants(model_type):
            for problem in self._problems(config, config.to_dict()):
                yield f"{model_type}, {name}: {problem}"

    def flat_problems(self, model_type: str) -> Iterator[str]:
        """As `problems`, for one dictionary for all layers in the spelling of either version."""
        for name, config, stated in self.upstream.flat(model_type):
            for problem in self._problems(config, stated):
                yield f"{model_type}, {name}: {problem}"

    def axial_problems(self, model_type: str) -> Iterator[str]:
        """As `problems`, for an image tower, whose configuration is none of a language model."""
        config = self.upstream.config(model_type)
        ((theirs, amplitude),) = self.upstream.tables(config).values()
        self.compared += 1
        head, axes = self._image_head(config)
        dealt = model_type in self.upstream.listed["layouts"]["dealt"]
        # What does not share out evenly over the axes stands still.
        rotary = RotarySpec(head, head - head % (2 * axes), config.rope_parameters["rope_theta"])
        mine = laid_out(rotary, Axial(axes, "dealt" if dealt else "own"), None).inv_freq
        blocks = 1 if dealt else axes
        if len(mine) != blocks * len(theirs):
            yield f"{len(mine)} pairs, theirs {len(theirs)} for each of {blocks}"
            return
        rope = {**config.rope_parameters, "rope_type": "default"}
        exact = np.array(self.exact(rope, len(theirs), 0, 0))
        if dealt:
            theirs, mine = sorted(theirs, reverse=True), tuple(sorted(mine, reverse=True))
        for block in np.split(np.array(mine), blocks):
            yield from _apart(block, np.array(theirs), exact)
        if amplitude != 1.0:
            yield f"amplitude {amplitude!r}"

    def _image_head(self, config: Any) -> tuple[int, int]:
        """Channels that are turned together, and how many axes turn them."""
        listed = self.upstream.listed["images"].get(config.model_type)
        if listed is None:
            return getattr(config, "head_dim", None) or _width(config) // _heads(config), 2
        channels = getattr(config, listed["width"])
        for key in listed["divided_by"]:
            channels //= getattr(config, key)
        return channels, listed.get("axes", 2)

    def _problems(self, config: Any, stated: dict[str, Any]) -> Iterator[str]:
        theirs = self.upstream.tables(config)
        spec = read_config(stated)
        seen = set()
        for group, rotary in spec.rotary_groups():
            kind = _kind(group, spec, stated.get("layer_types") or [], theirs)
            kind = self.upstream.listed["labels"].get(config.model_type, {}).get(kind, kind)
            seen.add(kind)
            rope = config.rope_parameters[kind] if kind else config.rope_parameters
            for length in _lengths(rope, config):
                table = theirs[kind]
                if length is not None:
                    table = self.upstream.at_length(config, kind, length)
                for problem in self._compare(rotary, table, rope, config, length):
                    yield f"{group.name} at {length} tokens: {problem}"
        if missing := set(theirs) - seen:
            yield f"no group of ours for {sorted(missing)}"

    def _compare(
        self,
        rotary: RotarySpec,
        theirs: tuple[list[float], float],
        rope: dict[str, Any],
        config: Any,
        length: int | None,
    ) -> Iterator[str]:
        their_table, their_amplitude = np.array(theirs[0]), theirs[1]
        pairs, claimed = len(their_table), getattr(config, "max_position_embeddings", 0)
        self.compared += 1
        mine = schedule(rotary, length)
        if len(mine.inv_freq) != pairs:
            yield f"{len(mine.inv_freq)} pairs, theirs {pairs}"
            return
        exact = np.array(self.exact(rope, pairs, 2 * pairs, claimed, length))
        if config.model_type in self.upstream.listed["layouts"]["reordered"]:
            their_table = np.sort(their_table)[::-1]
        yield from _apart(np.array(mine.inv_freq), their_table, exact)
        amplitude = self.exact_amplitude(rope, claimed)
        if not mine.attention_factor == their_amplitude == pytest.approx(amplitude, rel=1e-15):
            yield f"amplitudes {mine.attention_factor!r}, {their_amplitude!r}, exact {amplitude!r}"


def _apart(mine: Array, theirs: Array, exact: Array) -> Iterator[str]:
    """Where a table of either side is farther from the exact one than its arithmetic allows."""
    ulps = np.abs(mine.astype(np.float32) - exact) / np.spacing(exact.astype(np.float32))
    if ulps.max() > 1:
        yield f"ours is {ulps.max():.3g} ulp from exact at pair {ulps.argmax()}"
    apart = np.abs(theirs - exact) / np.where(exact > 0, exact, 1)
    if apart.max() > THEIR_ERROR:
        yield f"theirs is {apart.max():.3g} from exact at pair {apart.argmax()}"


def _heads(config: Any) -> int:
    """How many heads an image tower has, by any of its spellings."""
    return int(getattr(config, "num_attention_heads", None) or config.num_heads)


def _width(config: Any) -> int:
    """An image tower's own width; some call it embed_dim, and the language model's hidden_size."""
    return int(getattr(config, "embed_dim", None) or config.hidden_size)


def _kind(
    group: LayerGroup, spec: PositionSpec, layer_types: list[str], theirs: dict[str, Any]
) -> str:
    """Which of their tables serves this group of layers."""
    if "" in theirs:
        return ""
    if len(theirs) == 1 and len(list(spec.rotary_groups())) == 1:
        return next(iter(theirs))
    return layer_types[group.layers[0]]


def _lengths(rope: dict[str, Any], config: Any) -> list[int | None]:
    """A short prompt, and for schedules that depend on the length a long one."""
    if rope.get("rope_type") in ("dynamic", "longrope"):
        return [None, 3 * config.max_position_embeddings + 1]
    return [None]


@pytest.fixture(scope="session")
def judge(upstream: Any, exact: Any, exact_amplitude: Any) -> Judge:
    return Judge(upstream, exact, exact_amplitude)


SAMPLE = """
    llama mistral mixtral ministral3 mistral4 qwen2 qwen3_5_text qwen2_vl_text gemma2 gemma3_text
    gemma4_text phi phi3 gpt_neox gpt_oss cohere2 deepseek_v3 minicpm3 glm granitemoehybrid smollm3
    llama4_text modernbert nomic_bert olmo3 apertus exaone4 falcon_h1 laguna mimo_v2_flash lfm3
    ernie4_5_vl_moe_text longcat_flash dory
""".split()
AXIAL = ("qwen2_vl_vision", "pixtral")


@pytest.mark.parametrize("model_type", SAMPLE)
def test_a_type_and_the_scalings_it_accepts_agree(judge: Judge, model_type: str) -> None:
    assert not list(judge.problems(model_type))


@pytest.mark.parametrize("model_type", AXIAL)
def test_an_image_tower_agrees(judge: Judge, model_type: str) -> None:
    assert not list(judge.axial_problems(model_type))


@pytest.mark.conformance
def test_every_registered_type_agrees_or_is_listed(
    judge: Judge, upstream: Any, say_at_the_end: Callable[[str], None]
) -> None:
    left_out = {t: part["reason"] for part in upstream.listed["left_out"] for t in part["types"]}
    registered = upstream.registered()
    towers = [
        t
        for t in registered
        if t in upstream.listed["images"] or upstream.config_class(t).default_rope_type == "axial"
    ]
    read = [t for t in registered if t not in towers]
    wrong: list[str] = []
    for model_type in registered:
        if model_type not in left_out:
            check = judge.axial_problems if model_type in towers else judge.problems
            wrong.extend(check(model_type))
            if model_type in FACTS:
                wrong.extend(judge.flat_problems(model_type))
    covered = [t for t in registered if t not in left_out]
    say_at_the_end(
        f"transformers {upstream.release}: covered {len(covered)} of {len(registered)} types with "
        f"rope_parameters; by read_config {len(set(covered) & set(read))}, by positions.Axial "
        f"{len(set(covered) & set(towers))}, left out {len(left_out)}; {judge.compared} tables "
        "compared"
    )
    assert not wrong, "\n".join(wrong)
    assert set(left_out) <= set(registered)
    assert len(set(covered) & set(read)) >= 200
