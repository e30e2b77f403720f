"""vLLM 0.32 and 0.28, as measured on the models that they build from a file.

Everything that depends on a length is decided once, when the engine is loaded. Between the two
lies 0.30.0, which aligned YaRN with transformers (pull request 56446). A rotary table has rows for
the positions that its formula names; the compiled kernel checks no position against them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ropewalk.dialects.engines.given import Effect, Engine, Given, no_rule
from ropewalk.dialects.engines.transformers import (
    YARN_KEYS,
    fixed_base,
    gguf_without_scaling,
    llama3,
    proportional,
    refused_5,
    unscaled,
)
from ropewalk.dialects.engines.transformers import linear as every_engines_linear
from ropewalk.dialects.hf.length_keys import ORIGINAL
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
    deepseek_amplitude,
    deepseek_softmax,
    yarn_mscale,
)

OWN_LATENT = frozenset({"minicpm3"})
"""Latent attention outside vLLM's DeepSeek classes: its schedule is that of all others."""

PHI3_ORIGINAL = 4096
"""What Phi-3's configuration takes for the original length where the top of the file has none."""

MROPE_TABLE = 4
"""The older class for several axes builds its table, and its ramp, for so many times T."""


def linear(given: Given) -> Effect:
    """As everywhere, but for a factor that is written as a whole number."""
    factor = given.keys.get("factor")
    if given.config and isinstance(factor, int):
        rule = f"stops with a TypeError: a factor written as {factor} and not as {factor}.0"
        return Effect(None, read=frozenset({"factor"}), rules=(rule,))
    return every_engines_linear(given)


def dynamic(given: Given, scaling: DynamicNtk) -> Effect:
    """The base alone: the rule is asked for the file's own length, at which nothing is scaled."""
    rows = given.claimed or scaling.max_position_embeddings
    offered = scaling.factor * rows
    rules = (
        "one base for every prompt: that of the file's own length, which is unscaled; without "
        f"--max-model-len it offers {offered:g} positions, {scaling.factor:g} times its table",
    )
    return Effect(
        replace(given.rotary, scaling=UNSCALED),
        scaling.max_position_embeddings,
        read=frozenset({"factor"}),
        rules=rules + _short_of(given, rows),
    )


def _short_of(given: Given, rows: int) -> tuple[str, ...]:
    """What happens where the rotary table has fewer rows than positions are served."""
    if given.served is None or given.served <= rows:
        return ()
    return (
        f"its rotary table has {rows} rows for {given.served} positions: from position {rows} on "
        "it reads out of range, which stops the engine or, in the compiled kernel, crashes it",
    )


def yarn_old(given: Given, scaling: Yarn) -> Effect:
    """A = m(s) x attn_factor; attention_factor and the mscale pair are not read."""
    read = YARN_KEYS - {"attention_factor", "mscale", "mscale_all_dim"}
    read |= {"attn_factor", "apply_yarn_scaling", "extrapolation_factor"}
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
    rules += _short_of(given, int(ramp * scaling.factor))
    changed = replace(scaling, attention_factor=amplitude, original_max_position_embeddings=ramp)
    return Effect(
        replace(given.rotary, scaling=changed),
        scaling.original_max_position_embeddings,
        None,
        read,
        rules,
    )


def yarn(given: Given, scaling: Yarn) -> Effect:
    """As transformers has it since the alignment; its own attn_factor is gone."""
    original = scaling.original_max_position_embeddings
    rules = _short_of(given, int(original * scaling.factor))
    return Effect(given.rotary, original, read=YARN_KEYS, rules=rules)


def latent(given: Given, *, attn_factor: bool) -> Effect:
    """Latent attention takes every type but the default for DeepSeek's YaRN.

    A = m(s, mscale, 1 if absent) / m(s, mscale_all_dim, 0 if absent), and m^2 on the softmax.
    `attn_factor`: whether that key multiplies A (before 0.30.0).
    """
    scaling = given.rotary.scaling
    read = (YARN_KEYS - {"attention_factor", "truncate"}) | {"attn_factor"}
    original, s = given.length_in_keys(ORIGINAL), given.number("factor")
    if isinstance(scaling, Yarn):
        original, s = scaling.original_max_position_embeddings, scaling.factor
    if original is None or s is None:
        lacking = ORIGINAL if s is not None else "factor"
        rule = f"stops with a KeyError: its YaRN for latent attention wants {lacking}"
        return Effect(None, read=read, rules=(rule,))
    fast, slow, mscale, all_dim, stated = (
        given.number(key)
        for key in ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attn_factor")
    )
    if isinstance(scaling, Yarn):
        mscale, all_dim = scaling.mscale, scaling.mscale_all_dim
    amplitude = deepseek_amplitude(s, mscale, all_dim)
    if attn_factor and stated is not None:
        amplitude *= stated
    changed = Yarn(
        s, original, beta_fast=fast or 32.0, beta_slow=slow or 1.0, attention_factor=amplitude
    )
    rule = "latent attention takes deepseek_yarn, which reads mscale and mscale_all_dim apart"
    if not isinstance(scaling, Yarn):
        rule = "latent attention takes every type for deepseek_yarn: another schedule than stated"
    return Effect(
        replace(given.rotary, scaling=changed),
        original,
        deepseek_softmax(s, all_dim),
        read if attn_factor else read - {"attn_factor"},
        (rule, *_short_of(given, int(original * s))),
    )


def longrope(given: Given, scaling: LongRope) -> Effect:
    """One list for every prompt, by the longest served; the amplitude by the ratio of lengths."""
    scaling = given.own_lists(scaling)
    switch = scaling.original_max_position_embeddings
    long = (given.served or switch) > switch
    chosen, mode = (scaling.long_factor, "long") if long else (scaling.short_factor, "short")
    ratio = max((given.claimed or switch) / switch, 1.0)
    changed = LongRope(chosen, chosen, switch, ratio, given.number(f"{mode}_mscale"))
    read = frozenset({"short_factor", "long_factor", ORIGINAL, "short_mscale", "long_mscale"})
    rules: tuple[str, ...] = (f"the {mode} factors serve every prompt, short ones too",)
    derived = given.length(ORIGINAL) or (PHI3_ORIGINAL if given.model_type == "phi3" else None)
    if derived is not None and derived < (given.served or derived):
        short = ", by the short factors" if derived <= switch else ""
        rules += (f"without --max-model-len it serves {derived} tokens{short}",)
    return Effect(replace(given.rotary, scaling=changed), switch, None, read, rules)


def _deepseek(given: Given) -> bool:
    own = given.model_type in OWN_LATENT
    return given.mla and not own and not isinstance(given.rotary.scaling, Unscaled)


def rule(given: Given) -> Effect:
    """Since 0.30.0, as measured on 0.32.0."""
    if _deepseek(given):
        return latent(given, attn_factor=False)
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
        case LargerBase() | NtkByParts() | PairDivisors() | SteppedNtk() | UnknownScaling():
            return no_rule(given)
        case other:
            assert_never(other)


def rule_old(given: Given) -> Effect:
    """Before 0.30.0, where it was another one, as measured on 0.28.0."""
    if _deepseek(given):
        return latent(given, attn_factor=True)
    if isinstance(given.rotary.scaling, Yarn):
        return yarn_old(given, given.rotary.scaling)
    return rule(given)


def before(given: Given) -> Effect | None:
    """The configuration is transformers', which may refuse it."""
    return gguf_without_scaling(given) or refused_5(given)


VLLM = Engine("vLLM 0.32", rule, before)
VLLM_OLD = Engine("vLLM 0.28", rule_old, before)
