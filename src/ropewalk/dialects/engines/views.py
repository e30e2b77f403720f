"""A spec put through every engine, and the first place where two of them part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from ropewalk.dialects.engines.given import (
    NEUTRAL,
    Effect,
    Engine,
    EngineView,
    Given,
    Parting,
)
from ropewalk.dialects.engines.llamacpp import LLAMACPP
from ropewalk.dialects.engines.lmdeploy import LMDEPLOY
from ropewalk.dialects.engines.mlx import MLX
from ropewalk.dialects.engines.runtimes import CTRANSLATE2, EXLLAMA, MISTRALRS
from ropewalk.dialects.engines.sglang import SGLANG
from ropewalk.dialects.engines.transformers import TRANSFORMERS_4, TRANSFORMERS_5
from ropewalk.dialects.engines.vllm import VLLM, VLLM_OLD
from ropewalk.dialects.hf.family import ConfigSource
from ropewalk.dialects.hf.reader import read_family
from ropewalk.errors import ScheduleError
from ropewalk.rope.angles import Schedule
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import PositionSpec, RotarySpec, Source, SourceKind

ENGINES: tuple[Engine, ...] = (
    TRANSFORMERS_5,
    TRANSFORMERS_4,
    VLLM,
    VLLM_OLD,
    LLAMACPP,
    MLX,
    SGLANG,
    LMDEPLOY,
    EXLLAMA,
    CTRANSLATE2,
    MISTRALRS,
)

PROMPT = 1024
"""The short prompt, in tokens, or the claimed length where that is shorter."""

NO_CLAIM = 8192
"""Served where nothing is claimed, in tokens."""

TOLERANCE = 1e-3
"""Radians. fp32 tables alone differ by as much past about 30,000 tokens."""


def engine_views(
    spec: PositionSpec, *, prompt: int = PROMPT, served: int | None = None
) -> list[EngineView]:
    """What each of `ENGINES` computes for each rotary group of `spec`.

    Some engines obey keys that others do not; which are there is in the spec's source. `served` is
    the length each engine is started for, in tokens (the claimed length where None); `prompt` that
    of a short prompt.
    """
    claim = served or spec.claimed.tokens or NO_CLAIM
    return [
        _view(engine, given, min(prompt, claim), claim)
        for given in _given(spec, claim)
        for engine in ENGINES
    ]


def as_computed(engine: Engine, spec: PositionSpec, *, served: int | None = None) -> PositionSpec:
    """The spec of what `engine` computes when it is started for `served` tokens.

    Raises ScheduleError where the engine stops with an error or its rule is not known.
    """
    claim = served or spec.claimed.tokens or NO_CLAIM
    groups = list(spec.groups)
    for given in _given(spec, claim):
        effect = engine.before(given) or _by_rule(engine, given)
        if effect.rotary is None:
            raise ScheduleError(f"{engine.name}, {given.group.name}: {'; '.join(effect.rules)}")
        softmax = given.group.softmax
        if effect.softmax is not None:
            softmax = replace(softmax, factor=effect.softmax)
        changed = replace(given.group, encoding=effect.rotary, softmax=softmax)
        groups[groups.index(given.group)] = changed
    return replace(spec, groups=tuple(groups))


def parting(
    first: EngineView, second: EngineView, *, short: bool = False, tolerance: float = TOLERANCE
) -> Parting | None:
    """Where two views of one group part, at the claimed length or for the `short` prompt.

    The phase of pair i differs by |inv_a - inv_b| x position radians. None where one of the two
    computes nothing, or other channels are rotated.
    """
    a, b = (v.prompt if short else v.claim for v in (first, second))
    length = first.prompt_length if short else first.claim_length
    if a is None or b is None or len(a.inv_freq) != len(b.inv_freq):
        return None
    found = [
        (math.floor(tolerance / apart) + 1, pair)
        for pair, apart in enumerate(
            abs(x - y) for x, y in zip(a.inv_freq, b.inv_freq, strict=True)
        )
        if apart * (length - 1) > tolerance
    ]
    position, pair = min(found) if found else (None, None)
    return Parting(
        first.engine,
        second.engine,
        first.group,
        length,
        pair,
        position,
        b.attention_factor / a.attention_factor,
        b.softmax_factor / a.softmax_factor,
    )


def partings(views: Iterable[EngineView], *, short: bool = False) -> list[Parting]:
    """Every two engines that compute something for the same group, and where they part."""
    found = (parting(a, b, short=short) for a, b in combinations(views, 2) if a.group == b.group)
    return [each for each in found if each is not None]


def _view(engine: Engine, given: Given, prompt: int, claim: int) -> EngineView:
    effect = engine.before(given) or _by_rule(engine, given)
    short, long = (_schedule(effect, given, length) for length in (prompt, claim))
    unread = sorted(
        key
        for key, value in given.keys.items()
        if value is not None and key not in NEUTRAL | effect.read
    )
    return EngineView(
        engine=engine.name,
        group=given.group.name,
        rope_theta=None if effect.rotary is None else effect.rotary.scaling.base(effect.rotary),
        prompt=short,
        claim=long,
        prompt_length=prompt,
        claim_length=claim,
        trained=effect.trained,
        ignored=tuple(unread),
        rules=effect.rules,
    )


def _by_rule(engine: Engine, given: Given) -> Effect:
    try:
        return engine.rule(given)
    except ScheduleError as error:
        return Effect(None, rules=(f"cannot be computed: {error}",))


def _schedule(effect: Effect, given: Given, length: int) -> Schedule | None:
    if effect.rotary is None:
        return None
    factor = given.group.softmax.factor if effect.softmax is None else effect.softmax
    return replace(schedule(effect.rotary, length), softmax_factor=factor)


def _given(spec: PositionSpec, served: int) -> Iterator[Given]:
    """Each rotary group with what the file says of it."""
    source = spec.source
    text: Mapping[str, object] = {}
    bare: tuple[RotarySpec, ...] = ()
    if isinstance(source, ConfigSource):
        text, bare = source.family.config.values, _bare(source)
    others = iter(bare)
    for group, rotary, keys in spec.keyed_groups():
        yield Given(
            group=group,
            rotary=rotary,
            keys=keys.rope,
            config=text,
            model_type=spec.model_type,
            claimed=spec.claimed.tokens,
            trained=spec.trained.tokens,
            served=served,
            mla=source.latent,
            nested=keys.nested,
            from_gguf=source.kind is SourceKind.GGUF,
            bare=next(others, None),
        )


def _bare(source: ConfigSource) -> tuple[RotarySpec, ...]:
    """What a reader makes of the file that looks for `rope_theta` and `rope_scaling` alone; nothing
    where that is the same.
    """
    text = source.family.config
    if not text.values.get("rope_parameters") or text.values.get("rope_scaling"):
        return ()
    without = {k: v for k, v in text.values.items() if k != "rope_parameters"}
    spec = read_family(replace(source.family, config=replace(text, values=without)))
    return tuple(rotary for _, rotary in spec.rotary_groups())


OF_OTHERS = {
    "attn_factor": "vLLM before 0.30.0 and llama.cpp's converter",
    "apply_yarn_scaling": "vLLM before 0.30.0",
    "extrapolation_factor": "vLLM before 0.30.0",
    "short_mscale": "vLLM",
    "long_mscale": "vLLM",
}
"""Keys of a rope dictionary that transformers does not read, and who does."""


def remarks_on(spec: PositionSpec, before: Source, written: Source) -> Iterator[str]:
    """Sentences about `written`, made of the configuration `before` to say `spec`."""
    kept = set().union(*_ropes(written))
    for rope in _ropes(before):
        for key, who in OF_OTHERS.items():
            if rope.get(key) is not None and key not in kept:
                yield (
                    f"{key} {rope[key]} is left out: transformers does not read it, and "
                    f"{who} would scale by it beside the schedule written here"
                )
    names = (TRANSFORMERS_5.name, MLX.name)
    views = [v for v in engine_views(replace(spec, source=written)) if v.engine in names]
    for told in (*_channels(views), *map(_told, _partings(views))):
        yield (
            f"mlx-lm reads this file too, by rules of its own: {told}; "
            "ropewalk audit FILE --engines shows all that differs"
        )


def _channels(views: Sequence[EngineView]) -> Iterator[str]:
    """Where mlx-lm rotates other channels, in words."""
    for ours, theirs in combinations(views, 2):
        counts = [2 * len(each.inv_freq) for each in (ours, theirs)]
        if ours.group == theirs.group and all(counts) and counts[0] != counts[1]:
            yield f"{ours.group}: {counts[1]} channels of a head are rotated, and not {counts[0]}"


def _partings(views: Sequence[EngineView]) -> Iterator[Parting]:
    """Where mlx-lm parts from transformers 5 on the file, once a group of layers."""
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


def _ropes(source: Source) -> Iterator[Mapping[str, object]]:
    """The rope dictionaries of a configuration, each once."""
    yield from {id(keys.rope): keys.rope for keys in source.keys}.values()
