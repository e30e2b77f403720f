"""SGLang 0.5.23: its rotary layer (`get_rope`), as measured for families of Llama's kind.

Latent attention and GGUF files were not measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ropewalk.dialects.engines.given import Effect, Engine, Given, no_rule
from ropewalk.dialects.engines.transformers import YARN_KEYS, linear, llama3, unscaled
from ropewalk.dialects.engines.vllm import longrope
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
)

MEASURED = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Model types for which its layer was made as their models make it."""


def before(given: Given) -> Effect | None:
    """What was not measured, and the one type that it stopped at."""
    if given.from_gguf:
        return Effect(None, rules=("not measured on GGUF files",))
    if given.mla and not isinstance(given.rotary.scaling, Unscaled):
        return Effect(None, rules=("not measured with latent attention",))
    if given.model_type not in MEASURED:
        return Effect(None, rules=("not measured for this family",))
    word = given.keys.get("type") or given.keys.get("rope_type")
    if word == "mrope":
        return Effect(None, rules=("stops with a ValueError: mrope is unknown to it here",))
    return None


def dynamic(given: Given, scaling: DynamicNtk) -> Effect:
    """One base for all lengths: multiplier s L / T - (s - 1) at L = s T, so s^2 - s + 1."""
    s = scaling.factor
    multiplier = s * s - s + 1.0
    rule = f"one base for every prompt: multiplier {multiplier:g}, as for {s:g} times the claim"
    changed = replace(given.rotary, scaling=Ntk(multiplier))
    return Effect(changed, given.claimed, read=frozenset({"factor"}), rules=(rule,))


def yarn(given: Given, scaling: Yarn) -> Effect:
    """The mscale pair or 0.1 ln s + 1, times attn_factor; attention_factor is not read."""
    amplitude = replace(scaling, attention_factor=None).amplitude()[0]
    stated = given.number("attn_factor")
    amplitude *= 1.0 if stated is None else stated
    changed = replace(scaling, attention_factor=amplitude)
    read = (YARN_KEYS - {"attention_factor"}) | {"attn_factor"}
    original = scaling.original_max_position_embeddings
    return Effect(replace(given.rotary, scaling=changed), original, read=read)


def rule(given: Given) -> Effect:
    """By the type."""
    match given.rotary.scaling:
        case Unscaled():
            return unscaled(given)
        case Linear():
            return linear(given)
        case DynamicNtk() as scaling:
            return dynamic(given, scaling)
        case Yarn() as scaling:
            return yarn(given, scaling)
        case Llama3() as scaling:
            return llama3(given, scaling)
        case LongRope() as scaling:
            effect = longrope(given, scaling)
            return replace(effect, rules=effect.rules[:1])
        case Ntk() | Proportional() | LargerBase() | NtkByParts() | PairDivisors():
            return no_rule(given)
        case SteppedNtk() | UnknownScaling():
            return no_rule(given)
        case other:
            assert_never(other)


SGLANG = Engine("SGLang 0.5.23", rule, before)
