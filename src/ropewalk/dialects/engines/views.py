"""A spec put through every engine, and the first place where two of them part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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
from ropewalk.dialects.engines.mlx import MLX
from ropewalk.dialects.engines.transformers import TRANSFORMERS_4, TRANSFORMERS_5
from ropewalk.dialects.engines.vllm import VLLM, VLLM_OLD
from ropewalk.dialects.hf.facts import RotaryFacts
from ropewalk.dialects.hf.family import find_family
from ropewalk.dialects.hf.layers import read_layers
from ropewalk.dialects.hf.read import read_config
from ropewalk.dialects.hf.rope import select_rope
from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.errors import ScheduleError
from ropewalk.rope.angles import Schedule
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import PositionSpec, RotarySpec

ENGINES: tuple[Engine, ...] = (TRANSFORMERS_5, TRANSFORMERS_4, VLLM, VLLM_OLD, LLAMACPP, MLX)

PROMPT = 1024
"""The short prompt, in tokens, or the claimed length where that is shorter."""

NO_CLAIM = 8192
"""Served where nothing is claimed, in tokens."""

TOLERANCE = 1e-3
"""Radians. fp32 tables alone differ by as much past about 30,000 tokens."""


def engine_views(
    spec: PositionSpec,
    config: Mapping[str, object] | None = None,
    *,
    prompt: int = PROMPT,
    served: int | None = None,
) -> list[EngineView]:
    """What each of `ENGINES` computes for each rotary group of `spec`.

    `config` is the parsed `config.json` that the spec was read from: some engines obey keys that
    others do not, and only the file tells which are there. `served` is the length each engine is
    started for, in tokens (the claimed length where None); `prompt` that of a short prompt.
    Raises ConfigError for a `config` that cannot be read.
    """
    claim = served or spec.claimed.tokens or NO_CLAIM
    return [
        _view(engine, given, min(prompt, claim), claim)
        for given in _given(spec, config, claim)
        for engine in ENGINES
    ]


def as_computed(
    engine: Engine,
    spec: PositionSpec,
    config: Mapping[str, object] | None = None,
    *,
    served: int | None = None,
) -> PositionSpec:
    """The spec of what `engine` computes when it is started for `served` tokens.

    Raises ScheduleError where the engine stops with an error or its rule is not known.
    """
    claim = served or spec.claimed.tokens or NO_CLAIM
    groups = list(spec.groups)
    for given in _given(spec, config, claim):
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
    computes nothing, or other channels turn.
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


def _given(spec: PositionSpec, config: Mapping[str, object] | None, served: int) -> Iterator[Given]:
    """Each rotary group with what the file says of it."""
    keys_of, text, mla = _file(config)
    bare = _bare(config, text)
    for index, (group, rotary) in enumerate(spec.rotary_groups()):
        keys, nested = keys_of.get(group.layers, ({}, False))
        yield Given(
            group=group,
            rotary=rotary,
            keys=keys,
            config=text,
            model_type=spec.model_type,
            claimed=spec.claimed.tokens,
            trained=spec.trained.tokens,
            served=served,
            mla=mla or group.softmax.rule.startswith("1/sqrt(head_dim) x m^2"),
            nested=nested,
            from_gguf=spec.format.startswith("GGUF"),
            bare=bare[index] if bare and index < len(bare) else None,
        )


_Keys = dict[tuple[int, ...], tuple[Mapping[str, object], bool]]


def _file(config: Mapping[str, object] | None) -> tuple[_Keys, Mapping[str, object], bool]:
    """The rope dictionary of each group of layers, the text part, and whether it is latent."""
    if config is None:
        return {}, {}, False
    notes = Notes()
    family = find_family(Section(config, "config.json"), notes)
    if not isinstance(family.facts, RotaryFacts):
        return {}, family.config.values, False
    ropes = select_rope(family.config, family.facts, family.model_type, notes)
    layers = read_layers(family.config, family.facts, family.model_type, notes)
    found: _Keys = {}
    for kind, members in layers.groups:
        served = ropes.serving(kind.word)
        if served is not None:
            found[members] = (served.values, kind.word in ropes.by_kind)
    return found, family.config.values, family.facts.mla


def _bare(
    config: Mapping[str, object] | None, text: Mapping[str, object]
) -> tuple[RotarySpec, ...] | None:
    """What a reader makes of the file that looks for `rope_theta` and `rope_scaling` alone."""
    if config is None or not text.get("rope_parameters") or text.get("rope_scaling"):
        return None
    without = {k: v for k, v in text.items() if k != "rope_parameters"}
    # A file that names its type outside the text part names it within as well, or by a default.
    without.setdefault("model_type", config.get("model_type"))
    spec = read_config(without)
    return tuple(rotary for _, rotary in spec.rotary_groups())
