"""mlx-lm, which reads the Hugging Face file by rules of its own."""

from __future__ import annotations

from dataclasses import replace

from ropewalk.dialects.engines.given import Effect, Engine, Given
from ropewalk.dialects.engines.transformers import (
    dynamic,
    fixed_base,
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

DEFAULT_LENGTH = 4096
"""The original length that its YaRN takes where the file names none."""

SCALING_UNREAD = frozenset({"qwen3_moe", "gpt_neox", "llama4_text"})
"""Model types whose model files turn by the base alone."""
SCALING_NEEDED = frozenset({"deepseek_v2", "glm4_moe"})
"""Model types whose model files stop without a `rope_scaling`."""


def yarn(given: Given) -> Effect:
    """A = m(s, mscale, 1 if absent) / m(s, mscale_all_dim, 0 if absent); no attention_factor."""
    scaling = given.scaling(Yarn)
    s = scaling.factor
    mscale = 1.0 if scaling.mscale is None else scaling.mscale
    amplitude = yarn_mscale(s, mscale) / yarn_mscale(s, scaling.mscale_all_dim or 0.0)
    stated = not given.config or ORIGINAL in given.keys
    ramp = scaling.original_max_position_embeddings if stated else DEFAULT_LENGTH
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


def longrope(given: Given) -> Effect:
    """The long factors, always."""
    scaling = given.scaling(LongRope)
    switch, long = scaling.original_max_position_embeddings, scaling.long_factor
    ratio = max((given.claimed or switch) / switch, 1.0)
    changed = LongRope(long, long, switch, ratio, given.number("long_mscale"))
    read = frozenset({"long_factor", ORIGINAL, "long_mscale"})
    rule = "the long factors serve every prompt; the short ones are never read"
    return Effect(replace(given.rotary, scaling=changed), switch, None, read, (rule,))


def before(given: Given) -> Effect | None:
    """It reads no GGUF file, and some model files read fewer keys than the others.

    Seen on mlx-lm 0.32.2, by the tables of models that it built.
    """
    scaling = given.rotary.scaling
    if given.from_gguf:
        return Effect(None, rules=("does not read GGUF files",))
    if given.model_type in SCALING_UNREAD and not isinstance(scaling, Unscaled):
        return replace(unscaled(given), rules=("rope_scaling is not read for this family",))
    if given.model_type in SCALING_NEEDED and given.config.get("rope_scaling") is None:
        return Effect(None, rules=("stops with an error where rope_scaling is missing",))
    if given.model_type == "phi3" and isinstance(scaling, LongRope) and "type" not in given.keys:
        return Effect(None, rules=("stops with an error: it wants the key type in rope_scaling",))
    return None


MLX = Engine(
    "mlx-lm",
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
    before,
)
