"""Encodings without rotation: ALiBi, learned tables, sinusoids, buckets, none."""

from __future__ import annotations

import math

from ropewalk.dialects.hf.facts import (
    AlibiFacts,
    BucketFacts,
    Facts,
    LearnedFacts,
    SinusoidalFacts,
)
from ropewalk.dialects.hf.rope import heads_of, width_of
from ropewalk.dialects.hf.softmax import WIDE_HEADS
from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.rope.spec import (
    PLAIN_SOFTMAX,
    Alibi,
    Encoding,
    LearnedPositions,
    Length,
    NoPosition,
    RelativeBuckets,
    Sinusoidal,
    SoftmaxRule,
)


def read_unrotated(config: Section, facts: Facts, claimed: Length, notes: Notes) -> Encoding:
    """The encoding of a family that does not rotate."""
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
            return Sinusoidal(claimed.tokens)
        case BucketFacts():
            return RelativeBuckets(
                config.count("relative_attention_num_buckets") or facts.buckets,
                config.count("relative_attention_max_distance") or facts.max_distance,
            )
        case _:
            return NoPosition()


def usable_rows(facts: LearnedFacts, claimed: Length) -> int | None:
    """How many positions a learned table serves."""
    if claimed.tokens is None:
        return None
    spare = facts.offset if facts.offset_counted else 0
    return max(claimed.tokens - spare, 0)


def _alibi(config: Section) -> Alibi:
    """Slopes by the count of heads; MPT may restate the largest bias."""
    attention = config.section("attn_config")
    bias = attention.number("alibi_bias_max") if attention else None
    return Alibi(heads_of(config)[1], 8.0 if bias is None else bias)


def unrotated_softmax(config: Section, facts: Facts, model_type: str) -> SoftmaxRule:
    """The softmax rule of families that do not rotate."""
    width, heads = width_of(config)[1], heads_of(config)[1]
    head = config.count("d_kv") or config.count("head_dim")
    if head is None and width and heads:
        head = max(width // heads, 1)
    if head is None:
        return PLAIN_SOFTMAX
    if model_type == "zamba2":
        return WIDE_HEADS
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
