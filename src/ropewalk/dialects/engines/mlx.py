"""mlx-lm, which reads the Hugging Face file by rules of its own, one for each of its model files.

What each model file reads is measured on its classes (`mlx_table`, made by
`python -m atlas.engines.mlx_table`); how a schedule is then computed is here, as in its
`models/rope_utils.py`, release 0.32.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from ropewalk.dialects.engines import mlx_table as table
from ropewalk.dialects.engines.given import Effect, Engine, Given, no_rule
from ropewalk.dialects.engines.transformers import (
    dynamic,
    fixed_base,
    linear,
    llama3,
    proportional,
    unscaled,
)
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
    Scaling,
    SteppedNtk,
    UnknownScaling,
    Unscaled,
    Yarn,
    deepseek_amplitude,
    deepseek_softmax,
)

NO_GGUF = "does not read GGUF files"

DEFAULT_LENGTH = 4096
"""The original length that its YaRN takes where the dictionary names none."""

LLAMA3_LENGTH = 8192
"""The same of its llama3."""


def yarn(given: Given, scaling: Yarn) -> Effect:
    """A = m(s, mscale, 1 if absent) / m(s, mscale_all_dim, 0 if absent); no attention_factor."""
    amplitude = deepseek_amplitude(scaling.factor, scaling.mscale, scaling.mscale_all_dim)
    inside = given.length_in_keys(ORIGINAL)
    stated = not given.config or inside is not None
    # The length at the top of the file is not read here.
    ramp = inside or DEFAULT_LENGTH if given.config else scaling.original_max_position_embeddings
    changed = replace(
        scaling, attention_factor=amplitude, truncate=True, original_max_position_embeddings=ramp
    )
    read = frozenset({"factor", ORIGINAL, "beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
    rules: tuple[str, ...] = (
        () if stated else (f"{ORIGINAL} is missing from the dictionary: {ramp} is taken",)
    )
    if not scaling.truncate:
        rules += ("the ramp's ends are rounded to whole pairs all the same",)
    return Effect(replace(given.rotary, scaling=changed), ramp, None, read, rules)


def _llama3(given: Given, scaling: Llama3) -> Effect:
    """With the original length of the dictionary, or its own default."""
    original = given.length_in_keys(ORIGINAL) or LLAMA3_LENGTH
    changed = replace(scaling, original_max_position_embeddings=original)
    scaled = replace(given, rotary=replace(given.rotary, scaling=changed))
    return llama3(scaled if given.config else given, changed if given.config else scaling)


def longrope(given: Given, scaling: LongRope, how: str) -> Effect:
    """One list, always; the original length and the amplitude where `how` says.

    `how` is the list, then "dictionary", "top" or "long_mscale": what the amplitude follows from.
    """
    name, by = how.split(" ", 1)
    scaling = given.own_lists(scaling)
    switch, read = scaling.original_max_position_embeddings, frozenset({name})
    if by == "top":
        switch = given.length(ORIGINAL) or DEFAULT_LENGTH
    elif given.keys.get(ORIGINAL) is None:
        return Effect(None, rules=(f"stops with a KeyError: {ORIGINAL} is not in the dictionary",))
    else:
        read |= {ORIGINAL}
    chosen = scaling.long_factor if name == "long_factor" else scaling.short_factor
    ratio = max((given.claimed or switch) / switch, 1.0)
    amplitude = given.number("long_mscale") if by == "long_mscale" else None
    read |= {"long_mscale"} if by == "long_mscale" else set()
    changed = LongRope(chosen, chosen, switch, ratio, amplitude)
    word = name.split("_")[0]
    rule = f"the {word} factors serve every prompt; the others are never read"
    return Effect(replace(given.rotary, scaling=changed), switch, None, read, (rule,))


def rule(given: Given) -> Effect:
    """As the table of its model files says."""
    if given.from_gguf:
        return Effect(None, rules=(NO_GGUF,))
    if not given.config:
        return by_type(given)
    entry = table.entry(given.model_type)
    if isinstance(entry, str):
        return Effect(None, rules=(entry,))
    stopped = table.unmet(entry, given.config)
    if stopped:
        return Effect(None, rules=(f"stops with an error: {stopped}",))
    kind = _kind(given)
    base, said = table.base(entry, given, kind)
    if base is None:
        return Effect(None, rules=(f"stops with an error: {said}",))
    share, layout = table.channels(entry, given), table.layout(entry)
    if share != given.rotary.rotary_dim:
        said += (f"rotates {share} channels of {given.rotary.head_dim}",)
    # Divisors of a list are one for each pair that is rotated.
    plain = replace(given.rotary, scaling=UNSCALED, rotary_dim=share, layout=layout)
    plain = replace(plain, rope_theta=base)
    place, how = table.scaling(entry, given, kind)
    effect = _scaled(replace(given, rotary=plain), given.rotary.scaling, how)
    if effect.rotary is None:
        return effect
    if how == "plain" and not isinstance(given.rotary.scaling, Unscaled):
        said += (f"{place} is not read for this family: the base alone",)
    if given.mla and isinstance(given.rotary.scaling, Yarn):
        reads = table.softmax(entry, given)
        squared = deepseek_softmax(given.rotary.scaling.factor, given.number("mscale_all_dim"))
        effect = replace(effect, softmax=squared if reads and how != "plain" else 1.0)
    return replace(effect, rules=said + effect.rules)


def _kind(given: Given) -> str:
    """The table's word for these layers."""
    sliding = given.group.window is not None or given.group.name.startswith("sliding")
    return "sliding" if sliding else "full"


def _scaled(given: Given, scaling: Scaling, how: str) -> Effect:
    """The base, scaled as the cell of the table says."""
    if how == "plain":
        return unscaled(given)
    if how == "alpha":
        return fixed_base(replace(given, rotary=replace(given.rotary, scaling=scaling)))
    if how == "other":
        return Effect(None, rules=("scales this type by a rule of its own, not known here",))
    if how != "as" and not how.startswith(("long_factor", "short_factor")):
        return Effect(None, rules=(f"stops with an error: {how}",))
    scaled = replace(given, rotary=replace(given.rotary, scaling=scaling))
    if isinstance(scaling, LongRope):
        return longrope(scaled, scaling, how)
    return by_type(scaled)


def by_type(given: Given) -> Effect:
    """By the type, as `rope_utils` computes it."""
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
            return _llama3(given, scaling)
        case LongRope() as scaling:
            return longrope(given, scaling, "long_factor dictionary")
        case Proportional():
            return proportional(given)
        case LargerBase() | NtkByParts() | PairDivisors() | SteppedNtk() | UnknownScaling():
            return no_rule(given)
        case other:
            assert_never(other)


MLX = Engine("mlx-lm", rule)
