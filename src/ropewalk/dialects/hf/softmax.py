"""What a configuration does to attention scores beside 1/sqrt(head_dim)."""

from __future__ import annotations

import math

from ropewalk.dialects.hf.facts import RotaryFacts
from ropewalk.dialects.hf.lengths import ORIGINAL
from ropewalk.dialects.hf.values import Section
from ropewalk.rope.schedules import Scaling, Yarn, yarn_mscale
from ropewalk.rope.spec import PLAIN_SOFTMAX, SoftmaxRule

_UNDIVIDED = ("gemma3n", "gemma4", "diffusion_gemma", "embedding_gemma2")
_SCALED_BY_SCALAR = ("gemma2", "gemma3_text", "vaultgemma")
_BETA_MODELS = ("mistral4", "ministral3")


# Zamba2's heads are twice as wide as usual, and scaled as if they were not.
WIDE_HEADS = SoftmaxRule(math.sqrt(2.0), "1/sqrt(head_dim / 2)")


def read_softmax(
    config: Section,
    rope: Section,
    facts: RotaryFacts,
    model_type: str,
    scaling: Scaling,
    head_dim: int | None,
    *,
    rotated: bool,
) -> SoftmaxRule:
    """The rule for one group of layers; `rotated` says whether they have rotary encoding."""
    factor, rule = _factor(config, facts, model_type, scaling, head_dim)
    softcap = config.number("attn_logit_softcapping")
    if softcap is None and "attn_logit_softcapping" not in config.values:
        softcap = facts.softcap
    return SoftmaxRule(
        factor=factor,
        rule=rule,
        softcap=softcap,
        temperature=_temperature(config, rope, model_type, rotated=rotated),
        sinks=facts.sinks,
    )


def _factor(
    config: Section,
    facts: RotaryFacts,
    model_type: str,
    scaling: Scaling,
    head_dim: int | None,
) -> tuple[float, str]:
    """What multiplies the usual scale, and the rule's words."""
    if facts.mla and facts.squares_yarn and isinstance(scaling, Yarn) and scaling.mscale_all_dim:
        # The attention code of these families puts YaRN's amplitude into the scale, squared:
        # only part of each query turns, and a factor on cos and sin would miss the rest.
        s, weight = scaling.factor, scaling.mscale_all_dim
        return yarn_mscale(s, weight) ** 2, (
            f"1/sqrt(head_dim) x m^2 with m = 0.1 x mscale_all_dim {weight:g} x ln {s:g} + 1"
        )
    if head_dim is None:
        return PLAIN_SOFTMAX.factor, PLAIN_SOFTMAX.rule
    if model_type == "zamba2":
        return WIDE_HEADS.factor, WIDE_HEADS.rule
    if model_type.startswith(_UNDIVIDED):
        return math.sqrt(head_dim), "1: queries and keys are normalised, nothing is divided"
    scalar = config.number("query_pre_attn_scalar")
    if scalar is None and model_type in _SCALED_BY_SCALAR:
        scalar = 256.0
    if scalar is not None:
        rule = f"1/sqrt(query_pre_attn_scalar {scalar:g}) in place of 1/sqrt({head_dim})"
        return math.sqrt(head_dim / scalar), rule
    multiplier = config.number("attention_multiplier")
    if multiplier is not None and model_type.startswith("granite"):
        rule = f"attention_multiplier {multiplier:g} in place of 1/sqrt({head_dim})"
        return multiplier * math.sqrt(head_dim), rule
    return PLAIN_SOFTMAX.factor, PLAIN_SOFTMAX.rule


def _temperature(
    config: Section, rope: Section, model_type: str, *, rotated: bool
) -> tuple[float, float] | None:
    """(floor_scale, attn_scale) of a query scale 1 + attn_scale ln(1 + floor(p / floor_scale))."""
    if model_type == "llama4_text":
        tuned = config.flag("attn_temperature_tuning")
        if rotated or tuned is False:
            return None
        return config.number("floor_scale") or 8192.0, config.number("attn_scale") or 0.1
    beta = rope.number("llama_4_scaling_beta", zero=True)
    original = rope.length(ORIGINAL) or config.length(ORIGINAL)
    if model_type in _BETA_MODELS and beta and original:
        return float(original), beta
    return None
