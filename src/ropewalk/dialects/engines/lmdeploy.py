"""lmdeploy 0.18.0: the rotary layer of its PyTorch engine, as measured on its own builder.

Its configuration is transformers' own of version 5. GGUF files were not measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ropewalk.dialects.engines.given import Effect, Engine, Given, no_rule
from ropewalk.dialects.engines.transformers import (
    YARN_KEYS,
    dynamic,
    linear,
    llama3,
    proportional,
    refused_5,
    unscaled,
)
from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.rope.schedules import (
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
    deepseek_amplitude,
)


def before(given: Given) -> Effect | None:
    """What was not measured, what stops it, and the share that it does not read."""
    if given.from_gguf:
        return Effect(None, rules=("not measured on GGUF files",))
    if isinstance(given.rotary.scaling, Proportional):
        rule = "stops with an error: it asks for one head_dim of layers that have several"
        return Effect(None, rules=(rule,))
    return refused_5(given)


def yarn(given: Given, scaling: Yarn) -> Effect:
    """attention_factor; else DeepSeek's quotient wherever mscale_all_dim is stated."""
    changed = scaling
    if scaling.attention_factor is None and scaling.mscale_all_dim:
        amplitude = deepseek_amplitude(scaling.factor, scaling.mscale, scaling.mscale_all_dim)
        changed = replace(scaling, attention_factor=amplitude)
    original = scaling.original_max_position_embeddings
    return Effect(replace(given.rotary, scaling=changed), original, read=YARN_KEYS)


def longrope(given: Given, scaling: LongRope) -> Effect:
    """As transformers, but the amplitude always follows from the two lengths."""
    scaling = given.own_lists(scaling)
    switch = scaling.original_max_position_embeddings
    ratio = max((given.claimed or switch) / switch, 1.0)
    changed = replace(scaling, factor=ratio, attention_factor=None)
    return Effect(
        replace(given.rotary, scaling=changed),
        switch,
        read=frozenset({"short_factor", "long_factor", ORIGINAL}),
        rules=(f"each call takes the long factors beyond {switch} tokens",),
    )


def rule(given: Given) -> Effect:
    """By the type."""
    match given.rotary.scaling:
        case Unscaled():
            return unscaled(given)
        case Linear():
            return linear(given)
        case Ntk():
            rule = "alpha is not read: the base alone"
            return replace(unscaled(given), rules=(rule,))
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
        case LargerBase() | NtkByParts() | PairDivisors() | SteppedNtk() | UnknownScaling():
            return no_rule(given)
        case other:
            assert_never(other)


LMDEPLOY = Engine("lmdeploy 0.18", rule, before)
