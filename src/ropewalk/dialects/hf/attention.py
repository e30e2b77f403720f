"""What a configuration does to attention scores beside 1/sqrt(head_dim)."""

from __future__ import annotations

import math

from ropewalk.dialects.hf.defaults import (
    AlibiFacts,
    BucketFacts,
    ContentBiasFacts,
    Facts,
    LearnedFacts,
    RotaryFacts,
    SinusoidalFacts,
)
from ropewalk.dialects.hf.log_rules import read_log_rule
from ropewalk.dialects.hf.measured import measured_softmax
from ropewalk.dialects.hf.rotation import heads_of, width_of
from ropewalk.dialects.hf.windows import window_size
from ropewalk.dialects.values import MAX_LENGTH, Notes, Section
from ropewalk.rope.schedules import Scaling, Yarn, deepseek_softmax
from ropewalk.rope.spec import (
    PLAIN_SOFTMAX,
    AlibiSpec,
    ContentBias,
    Encoding,
    LearnedPositions,
    Length,
    NoPositionSpec,
    RelativeBuckets,
    SinusoidalSpec,
    SoftmaxRule,
)

_UNDIVIDED = ("gemma3n", "gemma4", "diffusion_gemma", "embedding_gemma2")
_SCALED_BY_SCALAR = ("gemma2", "gemma3_text", "vaultgemma")


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
    kind: str,
    rotated: bool,
) -> SoftmaxRule:
    """The rule for layers of one `kind`; `rotated` says whether they have rotary encoding."""
    factor, rule = _factor(config, facts, model_type, scaling, head_dim)
    softcap = config.number("attn_logit_softcapping")
    if softcap is None and "attn_logit_softcapping" not in config.values:
        softcap = facts.softcap
    return SoftmaxRule(
        factor=factor,
        rule=rule,
        softcap=softcap,
        log_rule=read_log_rule(config, rope, facts, model_type, kind, rotated=rotated),
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
        # only part of each query is rotated, and a factor on cos and sin would miss the rest.
        s, weight = scaling.factor, scaling.mscale_all_dim
        return deepseek_softmax(s, weight), (
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
    return _measured_factor(config, facts, head_dim)


def _measured_factor(config: Section, facts: RotaryFacts, head_dim: int) -> tuple[float, str]:
    """By the key that a class was seen to take its scale from, else what it was seen to take."""
    if key := facts.scale_key:
        scale = config.number(key)
        scale = facts.scale if scale is None else scale
        if scale is not None:
            rule = f"{key} {scale:g} in place of 1/sqrt({head_dim})"
            return scale * math.sqrt(head_dim), rule
    if key := facts.factor_key:
        scale = config.number(key)
        scale = facts.scale if scale is None else scale
        if scale is not None:
            return scale, f"{key} {scale:g} / sqrt({head_dim})"
    if key := facts.scalar_key:
        scalar = config.number(key)
        scalar = facts.scalar if scalar is None else scalar
        if scalar is not None:
            rule = f"1/sqrt({key} {scalar:g}) in place of 1/sqrt({head_dim})"
            return math.sqrt(head_dim / scalar), rule
    if facts.unscaled is not None:
        return facts.unscaled, f"{facts.unscaled / math.sqrt(head_dim):g} in the model's code"
    return PLAIN_SOFTMAX.factor, PLAIN_SOFTMAX.rule


def sinks_of(config: Section, kind: str, facts: RotaryFacts) -> bool:
    """Whether layers of a kind have sinks."""
    key = (
        "add_swa_attention_sink_bias"
        if kind == "sliding_attention"
        else "add_full_attention_sink_bias"
    )
    stated = config.flag(key)
    if stated is not None:
        return stated
    return facts.sinks and (not facts.sink_kinds or kind in facts.sink_kinds)


def read_unrotated(
    config: Section, facts: Facts, kind: str, claimed: Length, notes: Notes
) -> Encoding:
    """The encoding of layers of one kind, in a family that does not rotate."""
    match facts:
        case AlibiFacts():
            notes.note(
                "alibi-sets-no-limit",
                "ALiBi has no table that ends: the length key says what was promised, not where "
                "the model stops",
                "raise max_seq_len to run longer prompts" if config.has("max_seq_len") else "",
            )
            return _alibi(config)
        case LearnedFacts(offset=offset, offset_counted=counted):
            rows = usable_rows(facts, claimed)
            if rows is not None:
                notes.note(
                    "hard-limit",
                    f"positions are a learned table: position {rows} does not exist, and no "
                    "rotary scaling can extend it"
                    + (f" ({offset} rows of {claimed.source} serve no position)" * counted),
                )
            return LearnedPositions(rows, offset)
        case SinusoidalFacts():
            return SinusoidalSpec(claimed.tokens)
        case BucketFacts():
            return RelativeBuckets(
                _first_count(config, "num_buckets") or facts.buckets,
                _first_count(config, "max_distance") or facts.max_distance,
            )
        case ContentBiasFacts():
            extent = config.count("rel_extent", MAX_LENGTH) or facts.extent
            if "sliding" in kind:
                extent = window_size(config, facts) or extent
            return ContentBias(extent, config.count("d_rel") or facts.width)
        case _:
            return NoPositionSpec()


def _first_count(config: Section, ending: str) -> int | None:
    """T5's key, or CPM-Ant's."""
    keys = (f"relative_attention_{ending}", f"position_bias_{ending}")
    return next((n for key in keys if (n := config.count(key)) is not None), None)


def usable_rows(facts: LearnedFacts, claimed: Length) -> int | None:
    """How many positions a learned table serves."""
    if claimed.tokens is None:
        return None
    spare = facts.offset if facts.offset_counted else 0
    return max(claimed.tokens - spare, 0)


def _alibi(config: Section) -> AlibiSpec:
    """Slopes by the count of heads; MPT may restate the largest bias."""
    attention = config.section("attn_config")
    bias = attention.number("alibi_bias_max") if attention else None
    return AlibiSpec(heads_of(config)[1], 8.0 if bias is None else bias)


def unrotated_softmax(config: Section, facts: Facts, model_type: str) -> SoftmaxRule:
    """The softmax rule of families that do not rotate."""
    width, heads = width_of(config)[1], heads_of(config)[1]
    head = config.count("d_kv") or config.count("head_dim", least=0) or None
    if head is None and width and heads:
        head = max(width // heads, 1)
    if head is None:
        return PLAIN_SOFTMAX
    if model_type == "zamba2":
        return WIDE_HEADS
    scale = measured_softmax(model_type)
    if scale is not None:
        return SoftmaxRule(scale, f"{scale / math.sqrt(head):g} in the model's code")
    unscaled = isinstance(facts, BucketFacts) and not facts.scaled
    if unscaled or model_type == "gpt_neo":
        return SoftmaxRule(math.sqrt(head), "1: the scores are not divided by sqrt(head_dim)")
    multiplier = config.number("attention_multiplier")
    if multiplier is not None and model_type.startswith("granite"):
        rule = f"attention_multiplier {multiplier:g} in place of 1/sqrt({head})"
        return SoftmaxRule(multiplier * math.sqrt(head), rule)
    attention = config.section("attn_config")
    scale = attention.number("softmax_scale") if attention else None
    if scale is not None:
        rule = f"attn_config.softmax_scale {scale:g} in place of 1/sqrt({head})"
        return SoftmaxRule(scale * math.sqrt(head), rule)
    return PLAIN_SOFTMAX
