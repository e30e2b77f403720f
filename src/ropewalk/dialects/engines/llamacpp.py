"""llama.cpp, from a GGUF file as it is, or from a Hugging Face file through its converter."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ropewalk.dialects.engines.given import Effect, Engine, Given, no_rule
from ropewalk.dialects.engines.transformers import fixed_base, linear, proportional, unscaled
from ropewalk.dialects.gguf.archs import ARCHITECTURE_OF, ARCHITECTURES
from ropewalk.dialects.gguf.loader import yarn_keys
from ropewalk.dialects.hf.length_keys import CONVERTER_LENGTH, ORIGINAL
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
    deepseek_softmax,
)

BAKES_LLAMA3 = frozenset(
    "apertus arcee deci exaone exaone4 exaone4_5_text granite granitemoe granitemoehybrid llama "
    "llama4_text ministral3 mistral mistral3 mixtral nemotron-nas smollm3".split()
)
"""Model types whose converter class makes a tensor of llama3's divisors: `generate_extra_tensors`
of `conversion/llama.py` and of the classes that inherit it, `exaone.py` and `deci.py`. The common
class (`conversion/base.py`) leaves llama3 to them, so that other files are rotated without it."""
WRITES_LISTS = frozenset({"phi3", "phi4_multimodal", "phimoe", "minicpm", "minicpm3"})
"""Model types whose converter class writes longrope's lists (`conversion/phi.py`, `minicpm.py`);
the common class writes the type's name alone."""
WITHOUT_AMPLITUDE = frozenset({"minicpm", "minicpm3"})
"""Of those, the ones that get no amplitude: it is 1 then."""


def dynamic(given: Given) -> Effect:
    """The converter writes nothing for it."""
    rule = "a base that grows with the prompt is not known: the converted file has none"
    return replace(unscaled(given), rules=(rule,))


def yarn(given: Given, scaling: Yarn) -> Effect:
    """Whole pairs always; mscale_all_dim and the ramp's ends by the loader of the architecture.

    The kernel's own factor is divided out before, so what is left is
    m(s, mscale) / m(s, mscale_all_dim) x attn_factor, where mscale is taken for 1, but for
    DeepSeek-V2, where it is all_dim.
    """
    arch = ARCHITECTURE_OF[given.model_type]
    s, loads, fine = scaling.factor, yarn_keys(arch), arch == "mistral3"
    all_dim = (scaling.mscale_all_dim or 0.0) if fine or given.mla else 0.0
    mscale = all_dim if given.mla and all_dim else 1.0
    amplitude = deepseek_amplitude(s, mscale, all_dim)
    stated = given.number("attn_factor")
    amplitude *= 1.0 if stated is None else stated
    changed = replace(scaling, attention_factor=amplitude, truncate=True)
    read = frozenset({"factor", ORIGINAL, "beta_fast", "beta_slow"})
    if fine or given.mla:
        read |= {"mscale_all_dim"}
    rules = ["mscale is taken for 1"] if scaling.mscale and fine else []
    own = (loads.beta_fast, 1.0)
    if (scaling.beta_fast, scaling.beta_slow) != own and "beta_fast" not in loads.reads:
        changed = replace(changed, beta_fast=own[0], beta_slow=own[1])
        read -= {"beta_fast", "beta_slow"}
        rules.append(f"beta_fast and beta_slow stay {own[0]:g} and 1 ({loads.seen})")
    if not scaling.truncate:
        rules.append("the ramp's ends are rounded to whole pairs all the same")
    softmax = deepseek_softmax(s, all_dim) if given.mla else None
    return Effect(
        replace(given.rotary, scaling=changed),
        scaling.original_max_position_embeddings,
        softmax,
        read | {"attn_factor"},
        tuple(rules),
    )


def llama3(given: Given, scaling: Llama3) -> Effect:
    """A divisor for each pair, made by the converter with the original length at the file's top."""
    read = frozenset({"factor", "low_freq_factor", "high_freq_factor"})
    if scaling.low_freq_factor == scaling.high_freq_factor:
        rule = "the converter stops: low_freq_factor and high_freq_factor must differ"
        return Effect(None, read=read, rules=(rule,))
    if given.model_type not in BAKES_LLAMA3:
        rule = "the converter has no llama3 rule for this family: the converted file has none"
        return replace(unscaled(given), rules=(rule,))
    anchor = given.length(ORIGINAL) or CONVERTER_LENGTH
    rules: tuple[str, ...] = ()
    if anchor == scaling.original_max_position_embeddings:
        read |= {ORIGINAL}
    else:
        rules = (f"the converter computes with {anchor} tokens, whatever the dictionary says",)
    changed = replace(scaling, original_max_position_embeddings=anchor)
    return Effect(replace(given.rotary, scaling=changed), anchor, None, read, rules)


def longrope(given: Given, scaling: LongRope) -> Effect:
    """One list a context, by its size; the converter writes the amplitude by the lengths."""
    if given.model_type not in WRITES_LISTS:
        rule = "the converter writes no lists for this family: the converted file rotates without"
        return replace(unscaled(given), rules=(rule,))
    amplitude = 1.0 if given.model_type in WITHOUT_AMPLITUDE else None
    return _by_context(given, scaling, amplitude)


def _by_context(given: Given, scaling: LongRope, amplitude: float | None) -> Effect:
    scaling = given.own_lists(scaling)
    switch = scaling.original_max_position_embeddings
    long = (given.served or switch) > switch
    chosen, mode = (scaling.long_factor, "long") if long else (scaling.short_factor, "short")
    ratio = max((given.claimed or switch) / switch, 1.0)
    changed = LongRope(chosen, chosen, switch, ratio, amplitude)
    read = frozenset({"short_factor", "long_factor", ORIGINAL})
    rule = f"a context of this size takes the {mode} factors for every prompt, short ones too"
    return Effect(replace(given.rotary, scaling=changed), switch, None, read, (rule,))


def before(given: Given) -> Effect | None:
    """A GGUF file is its own; only the choice between two lists is made for each context.

    Of an architecture that is not known here nothing is said.
    """
    arch = given.model_type if given.from_gguf else ARCHITECTURE_OF.get(given.model_type)
    if arch not in ARCHITECTURES:
        whose = "converter" if arch is None else "loader"
        rule = f"what its {whose} makes of {arch or given.model_type} is not known here"
        return Effect(None, rules=(rule,))
    if not given.from_gguf:
        return None
    scaling = given.rotary.scaling
    trained = getattr(scaling, "original_max_position_embeddings", given.trained)
    if not isinstance(scaling, LongRope):
        return Effect(given.rotary, trained)
    return _by_context(given, scaling, scaling.attention_factor)


def rule(given: Given) -> Effect:
    """What the converter writes of each, and the loader makes of that."""
    match given.rotary.scaling:
        case Unscaled():
            return unscaled(given)
        case Linear():
            return linear(given)
        case Ntk():
            return fixed_base(given)
        case DynamicNtk() | SteppedNtk():
            return dynamic(given)
        case Yarn() as scaling:
            return yarn(given, scaling)
        case Llama3() as scaling:
            return llama3(given, scaling)
        case LongRope() as scaling:
            return longrope(given, scaling)
        case Proportional():
            return proportional(given)
        case LargerBase() | NtkByParts() | PairDivisors() | UnknownScaling():
            return no_rule(given)
        case other:
            assert_never(other)


LLAMACPP = Engine("llama.cpp", rule, before)
