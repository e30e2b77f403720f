"""vLLM before and after its pull request 56446 (September 2026), which aligned YaRN.

Everything that depends on a length is decided once, when the engine is loaded, by the length it
is started for. The later rules are those of that change and of pull requests 41277 (dynamic)
and 28244 (truncate).
"""

from __future__ import annotations

from dataclasses import replace

from ropewalk.dialects.engines.given import Effect, Engine, Given
from ropewalk.dialects.engines.transformers import (
    YARN_KEYS,
    fixed_base,
    gguf_without_scaling,
    linear,
    llama3,
    proportional,
    unscaled,
)
from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.rope.frequencies import yarn_mscale
from ropewalk.rope.scaling import (
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Unscaled,
    Yarn,
)

MROPE_TABLE = 4
"""The older class for several axes builds its table, and its ramp, for so many times T."""


def linear_old(given: Given) -> Effect:
    """As everywhere, but for a factor that is written as a whole number."""
    effect = linear(given)
    factor = given.keys.get("factor")
    if isinstance(factor, int):
        rule = f"a factor written as {factor} and not as {factor}.0 stops it with a TypeError"
        return replace(effect, rules=(rule,))
    return effect


def dynamic_old(given: Given) -> Effect:
    """One base for all lengths: multiplier s L / T - (s - 1) at L = s T, so s^2 - s + 1."""
    scaling = given.scaling(DynamicNtk)
    return _fixed(given, scaling, scaling.factor * scaling.max_position_embeddings)


def dynamic(given: Given) -> Effect:
    """One base for all lengths, by the longest prompt served."""
    scaling = given.scaling(DynamicNtk)
    return _fixed(given, scaling, float(given.served or scaling.max_position_embeddings))


def _fixed(given: Given, scaling: DynamicNtk, length: float) -> Effect:
    multiplier = scaling.factor * length / scaling.max_position_embeddings - (scaling.factor - 1.0)
    # Served for less than T it would fall below 1, and then below 0.
    multiplier = max(multiplier, 1.0)
    rule = f"one base for every prompt: multiplier {multiplier:g}, as for {length:g} tokens"
    return Effect(
        replace(given.rotary, scaling=Ntk(multiplier)),
        scaling.max_position_embeddings,
        read=frozenset({"factor"}),
        rules=(rule,),
    )


def yarn_old(given: Given) -> Effect:
    """A = m(s) x attn_factor; attention_factor and the mscale pair are not read."""
    if given.mla:
        return deepseek_yarn(given)
    scaling = given.scaling(Yarn)
    read = YARN_KEYS - {"attention_factor", "mscale", "mscale_all_dim"}
    read |= {"attn_factor", "apply_yarn_scaling", "extrapolation_factor"}
    if given.config and ORIGINAL not in given.keys and given.length(ORIGINAL) is None:
        return Effect(None, read=read, rules=(f"stops with a KeyError: {ORIGINAL} is missing",))
    if given.number("extrapolation_factor") not in (None, 1.0):
        rule = "extrapolation_factor mixes yarn with linear by a rule that is not computed here"
        return Effect(None, read=read, rules=(rule,))
    applied = given.keys.get("apply_yarn_scaling") is not False
    amplitude = yarn_mscale(scaling.factor) if applied else 1.0
    stated = given.number("attn_factor")
    amplitude *= 1.0 if stated is None else stated
    rules: tuple[str, ...] = ()
    ramp = scaling.original_max_position_embeddings
    if given.rotary.sections:
        ramp *= MROPE_TABLE
        rules = (f"with several position axes the ramp is computed for {ramp} tokens",)
    changed = replace(scaling, attention_factor=amplitude, original_max_position_embeddings=ramp)
    return Effect(
        replace(given.rotary, scaling=changed),
        scaling.original_max_position_embeddings,
        None,
        read,
        rules,
    )


def yarn(given: Given) -> Effect:
    """As transformers has it since the alignment; its own attn_factor is gone."""
    if given.mla:
        return deepseek_yarn(given)
    scaling = given.scaling(Yarn)
    return Effect(given.rotary, scaling.original_max_position_embeddings, read=YARN_KEYS)


def deepseek_yarn(given: Given) -> Effect:
    """A = m(s, mscale, 1 if absent) / m(s, mscale_all_dim, 0 if absent), and m^2 on the softmax."""
    scaling = given.scaling(Yarn)
    s = scaling.factor
    mscale = 1.0 if scaling.mscale is None else scaling.mscale
    all_dim = scaling.mscale_all_dim or 0.0
    amplitude = yarn_mscale(s, mscale) / yarn_mscale(s, all_dim)
    stated = given.number("attn_factor")
    amplitude *= 1.0 if stated is None else stated
    changed = replace(scaling, attention_factor=amplitude, truncate=True)
    read = (YARN_KEYS - {"attention_factor", "truncate"}) | {"attn_factor"}
    rule = "latent attention takes deepseek_yarn, which reads mscale and mscale_all_dim apart"
    return Effect(
        replace(given.rotary, scaling=changed),
        scaling.original_max_position_embeddings,
        yarn_mscale(s, all_dim) ** 2,
        read,
        (rule,),
    )


def longrope(given: Given) -> Effect:
    """One list for every prompt, by the longest served; the amplitude by the ratio of lengths."""
    scaling = given.scaling(LongRope)
    switch = scaling.original_max_position_embeddings
    long = (given.served or switch) > switch
    chosen, mode = (scaling.long_factor, "long") if long else (scaling.short_factor, "short")
    ratio = max((given.claimed or switch) / switch, 1.0)
    changed = LongRope(chosen, chosen, switch, ratio, given.number(f"{mode}_mscale"))
    read = frozenset({"short_factor", "long_factor", ORIGINAL, "short_mscale", "long_mscale"})
    rule = f"the {mode} factors serve every prompt, short ones too"
    return Effect(replace(given.rotary, scaling=changed), switch, None, read, (rule,))


VLLM = Engine(
    "vLLM, PR 56446",
    {
        Unscaled: unscaled,
        Linear: linear,
        Ntk: fixed_base,
        DynamicNtk: dynamic,
        Yarn: yarn,
        Llama3: llama3,
        LongRope: longrope,
        Proportional: proportional,
    },
    gguf_without_scaling,
)

VLLM_OLD = Engine(
    "vLLM before",
    {**VLLM.rules, Linear: linear_old, DynamicNtk: dynamic_old, Yarn: yarn_old},
    gguf_without_scaling,
)
