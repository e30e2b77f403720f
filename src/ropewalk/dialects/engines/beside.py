"""What another reader of a written configuration loses or computes otherwise, in sentences.

A configuration is written in transformers' words and checked by its rules. mlx-lm reads the same
file by rules of its own, and other engines read keys that transformers does not; a conversion
says so beside the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ropewalk.dialects.engines.given import Parting
from ropewalk.dialects.engines.mlx import MLX
from ropewalk.dialects.engines.transformers import TRANSFORMERS_5
from ropewalk.dialects.engines.views import engine_views, partings
from ropewalk.dialects.hf.facts import RotaryFacts
from ropewalk.dialects.hf.family import find_family
from ropewalk.dialects.hf.rope import select_rope
from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.rope.spec import PositionSpec

OF_OTHERS = {
    "attn_factor": "vLLM before its pull request 56446 and llama.cpp's converter",
    "apply_yarn_scaling": "vLLM before its pull request 56446",
    "extrapolation_factor": "vLLM before its pull request 56446",
    "short_mscale": "vLLM",
    "long_mscale": "vLLM and mlx-lm",
}
"""Keys of a rope dictionary that transformers does not read, and who does."""


def remarks_on(
    spec: PositionSpec, before: Mapping[str, object], written: Mapping[str, object]
) -> Iterator[str]:
    """Sentences about `written`, made of the configuration `before` to say `spec`."""
    kept = set().union(*(rope.keys() for rope in _ropes(written)))
    for rope in _ropes(before):
        for key, who in OF_OTHERS.items():
            if rope.get(key) is not None and key not in kept:
                yield (
                    f"{key} {rope[key]} is left out: transformers does not read it, and "
                    f"{who} would scale by it beside the schedule written here"
                )
    for parting in _partings(spec, written):
        yield (
            f"mlx-lm reads this file too, by rules of its own: {_told(parting)}; "
            "ropewalk audit FILE --engines shows all that differs"
        )


def _partings(spec: PositionSpec, written: Mapping[str, object]) -> Iterator[Parting]:
    """Where mlx-lm parts from transformers 5 on the file, once a group of layers."""
    names = (TRANSFORMERS_5.name, MLX.name)
    views = [view for view in engine_views(spec, written) if view.engine in names]
    seen = set()
    for short in (False, True):
        for parting in partings(views, short=short):
            if not parting.agree and parting.group not in seen:
                seen.add(parting.group)
                yield parting


def _told(parting: Parting) -> str:
    """What differs, in words."""
    told = []
    if parting.position is not None:
        told.append(
            f"pair {parting.pair} is off by more than 0.001 rad from position {parting.position} on"
        )
    if abs(parting.attention - 1.0) > 1e-6:
        told.append(f"cos and sin x {parting.attention:.6g}")
    if abs(parting.softmax - 1.0) > 1e-6:
        told.append(f"the softmax scale x {parting.softmax:.6g}")
    return f"{parting.group}, a prompt of {parting.length} tokens: {', '.join(told)}"


def _ropes(config: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The rope dictionaries of the text model."""
    family = find_family(Section(config, "config.json"), Notes())
    if isinstance(family.facts, RotaryFacts):
        ropes = select_rope(family.config, family.facts, family.model_type, Notes())
        for section in {id(s): s for s in (ropes.main, *ropes.by_kind.values()) if s}.values():
            yield section.values
