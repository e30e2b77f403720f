"""transformers 4.57 and 5.24: the rules of `modeling_rope_utils`, by release.

Version 5 is what the readers of this package follow, so its rules pass the encoding on; what
it does in its own way is said beside. Version 4 reads `rope_theta` and `rope_scaling` alone.
"""

from __future__ import annotations

from dataclasses import replace

from ropewalk.dialects.engines.given import Effect, Engine, Given
from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.rope.scaling import (
    UNSCALED,
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Unscaled,
    Yarn,
)

YARN_KEYS = frozenset(
    {"factor", ORIGINAL, "attention_factor", "beta_fast", "beta_slow"}
    | {"mscale", "mscale_all_dim", "truncate"}
)
LLAMA3_KEYS = frozenset({"factor", ORIGINAL, "low_freq_factor", "high_freq_factor"})


def unscaled(given: Given) -> Effect:
    """The base alone."""
    return Effect(replace(given.rotary, scaling=UNSCALED), given.trained)


def linear(given: Given) -> Effect:
    """Every frequency over the factor."""
    return Effect(given.rotary, given.trained, read=frozenset({"factor"}))


def fixed_base(given: Given) -> Effect:
    """A larger base by the family's own key alpha."""
    return Effect(given.rotary, given.trained, read=frozenset({"factor", "alpha"}))


def dynamic(given: Given) -> Effect:
    """A base that grows with the longest row of each batch, from the claimed length on."""
    rule = "the base grows with the longest prompt of each call, beyond {} tokens"
    anchor = getattr(given.rotary.scaling, "max_position_embeddings", given.claimed)
    return Effect(given.rotary, anchor, read=frozenset({"factor"}), rules=(rule.format(anchor),))


def yarn(given: Given) -> Effect:
    """attention_factor, else the mscale pair, else 0.1 ln s + 1."""
    scaling = given.scaling(Yarn)
    if given.nested and not scaling.truncate:
        return Effect(
            replace(given.rotary, scaling=replace(scaling, truncate=True)),
            scaling.original_max_position_embeddings,
            read=YARN_KEYS - {"truncate"},
            rules=("truncate is looked for outside the dictionary of a kind of layer",),
        )
    return Effect(given.rotary, scaling.original_max_position_embeddings, read=YARN_KEYS)


def llama3(given: Given) -> Effect:
    """Llama 3.1's rule."""
    anchor = getattr(given.rotary.scaling, "original_max_position_embeddings", None)
    return Effect(given.rotary, anchor, read=LLAMA3_KEYS)


def longrope(given: Given) -> Effect:
    """Short or long factors by the longest prompt of each call."""
    switch = given.scaling(LongRope).original_max_position_embeddings
    return Effect(
        given.rotary,
        switch,
        read=frozenset({"factor", ORIGINAL, "attention_factor", "short_factor", "long_factor"}),
        rules=(f"each call takes the long factors beyond {switch} tokens",),
    )


def longrope_4(given: Given) -> Effect:
    """As now, but the original length is read at the top alone, and then gives the factor."""
    scaling = given.scaling(LongRope)
    original, claimed = given.length(ORIGINAL), given.claimed
    if claimed is None:
        return longrope(given)
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
    """transformers takes base and sizes from a GGUF file, and neither scaling keys nor tensors."""
    if not given.from_gguf:
        return None
    if isinstance(given.rotary.scaling, Unscaled):
        return unscaled(given)
    rule = "a GGUF file's scaling keys and tensors of divisors are dropped"
    return replace(unscaled(given), rules=(rule,))


def before_4(given: Given) -> Effect | None:
    """Files that speak only of rope_parameters say nothing to version 4."""
    dropped = gguf_without_scaling(given)
    if dropped is not None or given.bare is None:
        return dropped
    rule = "rope_parameters is not read at all: base, scaling and share are its defaults"
    return Effect(given.bare, given.trained, rules=(rule,))


TRANSFORMERS_5 = Engine(
    "transformers 5.24",
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

TRANSFORMERS_4 = Engine(
    "transformers 4.57",
    {**TRANSFORMERS_5.rules, LongRope: longrope_4, Proportional: unknown_to_4},
    before_4,
)
