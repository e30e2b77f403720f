"""transformers 4.57 and 5.24: the rules of `modeling_rope_utils`, by release.

Version 5 is what the readers of this package follow, so its rules pass the encoding on; what
it does in its own way is said beside. Version 4 reads `rope_theta` and `rope_scaling` alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import assert_never

from ropewalk.dialects.engines.given import Effect, Engine, Given, no_rule
from ropewalk.dialects.gguf.loader import MEANT_BASES, UNSTATED
from ropewalk.dialects.hf.defaults import RotaryFacts
from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.dialects.hf.measured import (
    BASE,
    OLDER,
    RELEASE,
    measured_facts,
    nested_outcome,
    older_outcome,
    unread_keys,
)
from ropewalk.rope.schedules import (
    UNSCALED,
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    SteppedNtk,
    UnknownScaling,
    Unscaled,
    Yarn,
)

KNOWN_OTHERWISE = frozenset({""})
"""Types that the list does not name and the release loads all the same."""

DEFAULT = "transformers' default"
"""How the source of a base begins that the file does not state."""

YARN_KEYS = Yarn.spelled.hf_keys


def unscaled(given: Given) -> Effect:
    """The base alone."""
    return Effect(replace(given.rotary, scaling=UNSCALED), given.trained)


def linear(given: Given) -> Effect:
    """Every frequency over the factor."""
    return Effect(given.rotary, given.trained, read=frozenset({"factor"}))


def fixed_base(given: Given) -> Effect:
    """A larger base by the family's own key alpha."""
    return Effect(given.rotary, given.trained, read=frozenset({"factor", "alpha"}))


def dynamic(given: Given, scaling: DynamicNtk) -> Effect:
    """A base that grows with the longest row of each batch, from the claimed length on."""
    rule = "the base grows with the longest prompt of each call, beyond {} tokens"
    start = scaling.max_position_embeddings
    return Effect(given.rotary, start, read=frozenset({"factor"}), rules=(rule.format(start),))


def yarn(given: Given, scaling: Yarn) -> Effect:
    """attention_factor, else the mscale pair, else 0.1 ln s + 1."""
    if given.nested and not scaling.truncate:
        return Effect(
            replace(given.rotary, scaling=replace(scaling, truncate=True)),
            scaling.original_max_position_embeddings,
            read=YARN_KEYS - {"truncate"},
            rules=("truncate is looked for outside the dictionary of a kind of layer",),
        )
    return Effect(given.rotary, scaling.original_max_position_embeddings, read=YARN_KEYS)


def llama3(given: Given, scaling: Llama3) -> Effect:
    """Llama 3.1's rule."""
    original = scaling.original_max_position_embeddings
    return Effect(given.rotary, original, read=Llama3.spelled.hf_keys)


def longrope(given: Given, scaling: LongRope) -> Effect:
    """Short or long factors by the longest prompt of each call; phimoe always the short ones."""
    switch = scaling.original_max_position_embeddings
    if given.model_type == "phimoe":
        short = replace(scaling, long_factor=scaling.short_factor)
        read = LongRope.spelled.hf_keys | {"short_mscale", "long_mscale"}
        rule = "every call takes the short factors"
        return Effect(replace(given.rotary, scaling=short), switch, read=read, rules=(rule,))
    return Effect(
        given.rotary,
        switch,
        read=LongRope.spelled.hf_keys,
        rules=(f"each call takes the long factors beyond {switch} tokens",),
    )


def longrope_4(given: Given, scaling: LongRope) -> Effect:
    """As now, but the original length is read at the top alone, and then gives the factor."""
    original, claimed = given.length(ORIGINAL), given.claimed
    if claimed is None:
        return longrope(given, scaling)
    factor = claimed / original if original else scaling.factor
    changed = replace(
        scaling, original_max_position_embeddings=original or claimed, factor=max(factor, 1.0)
    )
    read = frozenset({"attention_factor", "short_factor", "long_factor"})
    rule = f"{ORIGINAL} is read at the top of the file alone"
    return Effect(
        replace(given.rotary, scaling=changed),
        changed.original_max_position_embeddings,
        read=read | (frozenset({ORIGINAL}) if original else frozenset({"factor"})),
        rules=(rule,),
    )


def proportional(given: Given) -> Effect:
    """Part of the pairs, exponents over the whole head."""
    return Effect(given.rotary, given.trained, read=frozenset({"factor"}))


def unknown_to_4(given: Given) -> Effect:  # noqa: ARG001 - one signature
    """A rope_type that this release does not have."""
    return Effect(None, rules=("stops with an error: it has no such rope_type",))


def gguf_without_scaling(given: Given) -> Effect | None:
    """transformers takes base and sizes from a GGUF file, and neither scaling keys nor tensors.

    Where the file has no base, its class has one of its own.
    """
    if not given.from_gguf:
        return None
    meant = MEANT_BASES.get(given.model_type)
    if meant is not None and given.rotary.rope_theta_source == UNSTATED:
        given = replace(given, rotary=replace(given.rotary, rope_theta=meant))
    if isinstance(given.rotary.scaling, Unscaled):
        return unscaled(given)
    rule = "a GGUF file's scaling keys and tensors of divisors are dropped"
    return replace(unscaled(given), rules=(rule,))


def nested_5(given: Given) -> Effect | None:
    """Dictionaries by kind of layer, of which most classes know nothing."""
    outcome = nested_outcome(given.model_type) if given.nested else ""
    if outcome in ("", "computed"):
        return None
    if not outcome.startswith(BASE):
        rule = f"stops with {outcome}: this class knows no dictionaries by kind of layer"
        return Effect(None, rules=(rule,))
    base = outcome.removeprefix(BASE)
    rule = f"dictionaries by kind of layer are not read: base {base}, and no scaling"
    plain = replace(given.rotary, rope_theta=float(base), scaling=UNSCALED)
    return Effect(plain, given.trained, rules=(rule,))


def older_5(given: Given) -> Effect | None:
    """Version 4's `rope_scaling`, which a few classes leave aside."""
    outcome = older_outcome(given.model_type)
    stated = given.config.get("rope_scaling") and not given.config.get("rope_parameters")
    # What a class stops with was seen of linear scaling alone.
    if not outcome.startswith(BASE) or not stated or given.nested or given.from_gguf:
        return None
    rule = "rope_scaling is not read by this class"
    return Effect(replace(given.rotary, scaling=UNSCALED), given.trained, rules=(rule,))


def whole_share(given: Given, release: str = RELEASE) -> Effect | None:
    """A share of rotated channels that a class does not read, where nothing is scaled."""
    facts = None if given.from_gguf else measured_facts(given.model_type, release)
    if not isinstance(facts, RotaryFacts) or not isinstance(given.rotary.scaling, Unscaled):
        return None
    key = "partial_rotary_factor"
    read = facts.inner_share if key in given.keys else facts.outer_share
    if not {key} & {*given.keys, *given.config} and "rotary_dim" in given.config:
        key = "rotary_dim"
        read = key not in unread_keys(given.model_type)
    width = int(given.rotary.head_dim * facts.partial)
    if read or given.mla or width == given.rotary.rotary_dim:
        return None
    whole = replace(given.rotary, rotary_dim=width)
    rule = f"{key} is not read: {width} channels are rotated"
    return Effect(whole, given.trained, rules=(rule,))


def refused_5(given: Given) -> Effect | None:
    """Phi-3's configuration class renames su and yarn to longrope and then misses its keys."""
    word = given.keys.get("type") or given.keys.get("rope_type")
    if given.model_type != "phi3" or word not in ("su", "yarn") or given.from_gguf:
        return None
    wanted = ("short_factor", "long_factor", ORIGINAL)
    missing = ", ".join(key for key in wanted if key not in given.keys)
    if not missing:
        return None
    rule = f"stops with a KeyError: phi3 takes {word} for longrope and misses {missing}"
    return Effect(None, rules=(rule,))


@cache
def _known_to_4() -> frozenset[str]:
    """The model types of release 4.57.6, from its own list."""
    path = files("ropewalk.dialects.engines").joinpath("transformers4.json")
    return frozenset(json.loads(path.read_text("utf-8")))


def refused_4(given: Given) -> Effect | None:
    """What release 4.57 does not load, or refuses in its configuration class."""
    keys, stated = given.keys, given.config.get("rope_scaling")
    rule = ""
    if given.model_type and given.model_type not in _known_to_4() | KNOWN_OTHERWISE:
        rule = f"does not load it: it has no model type {given.model_type}"
    elif given.model_type == "phi3" and stated:
        if "type" not in keys:
            rule = "stops with a ValueError: phi3 wants the key type in rope_scaling"
        elif {*keys} != {"type", "short_factor", "long_factor"}:
            rule = (
                "stops with a ValueError: phi3 takes no key but type, short_factor and "
                "long_factor in rope_scaling"
            )
    elif (keys.get("type") or keys.get("rope_type")) == "mrope" and "vl" not in given.model_type:
        rule = "stops with a KeyError: it has no rope_type mrope"
    return Effect(None, rules=(rule,)) if rule else None


def before_5(given: Given) -> Effect | None:
    """Files of another format, and files that release 5 refuses."""
    return gguf_without_scaling(given) or refused_5(given) or nested_5(given) or whole_share(given)


def before_4(given: Given) -> Effect | None:
    """Files that speak only of rope_parameters say nothing to version 4."""
    if given.from_gguf:
        return gguf_without_scaling(given)
    dropped = refused_4(given)
    if dropped is not None or given.bare is None:
        return dropped or whole_share(given, OLDER)
    rule = "rope_parameters is not read at all: base, scaling and share are its defaults"
    return Effect(given.bare, given.trained, rules=(rule,))


def rule_5(given: Given) -> Effect:
    """By release 5.24."""
    match given.rotary.scaling:
        case Unscaled():
            return unscaled(given)
        case Linear():
            return linear(given)
        case Ntk():
            return fixed_base(given)
        case DynamicNtk() as scaling:
            return dynamic(given, scaling)
        case Yarn() as scaling:
            return yarn(given, scaling)
        case Llama3() as scaling:
            return llama3(given, scaling)
        case LongRope() as scaling:
            return longrope(given, scaling)
        case Proportional():
            return proportional(given)
        case SteppedNtk():
            rule = f"does not load it without its own code: it has no type {given.model_type}"
            return Effect(None, rules=(rule,))
        case LargerBase() | NtkByParts() | PairDivisors() | UnknownScaling():
            return no_rule(given)
        case other:
            assert_never(other)


def with_defaults_4(given: Given) -> Given:
    """The base that a class of release 4.57 has where the file states none."""
    facts = measured_facts(given.model_type, OLDER)
    if not isinstance(facts, RotaryFacts) or facts.base is None or given.nested:
        return given
    if not given.rotary.rope_theta_source.startswith(DEFAULT):
        return given
    return replace(given, rotary=replace(given.rotary, rope_theta=facts.base))


def rule_4(given: Given) -> Effect:
    """By release 4.57, where that is another one."""
    given = with_defaults_4(given)
    match given.rotary.scaling:
        case LongRope() as scaling:
            return longrope_4(given, scaling)
        case other if other.spelled.hf5 is not None and other.spelled.hf4 is None:
            return unknown_to_4(given)
        case _:
            return rule_5(given)


TRANSFORMERS_5 = Engine("transformers 5.24", rule_5, before_5)
TRANSFORMERS_4 = Engine("transformers 4.57", rule_4, before_4)
