"""Which factor on queries, keys or scores grows with the logarithm of position or length.

Each family has keys of its own for it; the formula and its constants are one type,
`ropewalk.rope.log_rule.LogRule`.
"""

from __future__ import annotations

from ropewalk.dialects.hf.defaults import ContentBiasFacts, Facts
from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.dialects.values import Section
from ropewalk.rope.log_rule import LogRule

DUAL_CHUNK = "dual_chunk_attention_config"
LLAMA_4 = "llama_4_scaling"
BETA = "llama_4_scaling_beta"
SSMAX = "use_ssmax"
LOG_N = "use_logn_attn"

_BETA_MODELS = ("mistral4", "ministral3")
_FLOOR, _ATTN_SCALE = 8192.0, 0.1
"""What `Llama4TextConfig` has for `floor_scale` and `attn_scale`."""
_ALPHA = 0.1
"""What Inkling's classes have for `log_scaling_alpha`."""
_CHUNK_SCALE = 0.1
"""Of the keys of dual chunk attention (Qwen2.5-1M, 2501.15383, section 3)."""


def read_log_rule(
    config: Section, rope: Section, facts: Facts, model_type: str, kind: str, *, rotated: bool
) -> LogRule | None:
    """The rule of one kind of layer; `rotated` says whether it has rotary encoding."""
    if model_type == "llama4_text":
        return _llama4(config, rotated=rotated)
    if isinstance(facts, ContentBiasFacts):
        return None if "sliding" in kind else _inkling(config, facts)
    if model_type == "mistral_large4_text":
        # By the class alone: s and a constant beside it are trained for each head.
        return LogRule("learned", first=1)
    if config.flag(SSMAX):
        return LogRule("learned", first=1, keys=(config.name(SSMAX),))
    if model_type == "qwen" and config.flag(LOG_N):
        return _qwen(config)
    if config.has(DUAL_CHUNK):
        return _dual_chunk(config)
    return _mistral(config, rope, model_type)


def _llama4(config: Section, *, rotated: bool) -> LogRule | None:
    """Layers without position, unless the file turns it off."""
    if rotated or config.flag("attn_temperature_tuning") is False:
        return None
    return LogRule(
        "in steps",
        start=config.number("floor_scale") or _FLOOR,
        scale=config.number("attn_scale") or _ATTN_SCALE,
        first=1,
        keys=_stated(config, "attn_temperature_tuning", "floor_scale", "attn_scale"),
    )


def _mistral(config: Section, rope: Section, model_type: str) -> LogRule | None:
    """`llama_4_scaling_beta` in the rope dictionary, or an object beside it, as Mistral's own
    files have it.
    """
    if model_type in _BETA_MODELS:
        beta = rope.number(BETA, zero=True)
        original = rope.length(ORIGINAL) or config.length(ORIGINAL)
        if beta and original:
            keys = _stated(rope, BETA, ORIGINAL)
            return LogRule("in steps", start=float(original), scale=beta, keys=keys)
    own = config.section(LLAMA_4) if config.has(LLAMA_4) else None
    if own is None:
        return None
    beta, original = own.number("beta", zero=True), own.length(ORIGINAL)
    if not beta or original is None:
        return None
    return LogRule(
        "in steps", start=float(original), scale=beta, keys=_stated(own, "beta", ORIGINAL)
    )


def _qwen(config: Section) -> LogRule | None:
    """Qwen-1: the logarithm of the position to the base `seq_length`, from that length on."""
    start = config.length("seq_length")
    if start is None:
        return None
    return LogRule(
        "by base", start=float(start), first=1, keys=_stated(config, LOG_N, "seq_length")
    )


def _inkling(config: Section, facts: ContentBiasFacts) -> LogRule | None:
    """Queries, and the numbers that mix the relative bias, of layers without a window."""
    start = config.number("log_scaling_n_floor") or facts.log_floor
    alpha = config.number("log_scaling_alpha", zero=True)
    if start is None:
        return None
    return LogRule(
        "by ratio",
        start=start,
        scale=_ALPHA if alpha is None else alpha,
        first=1,
        keys=_stated(config, "log_scaling_n_floor", "log_scaling_alpha"),
    )


def _dual_chunk(config: Section) -> LogRule | None:
    """Keys, by the length over the original one; without that length there is no factor."""
    part = config.section(DUAL_CHUNK)
    original = None if part is None else part.length(ORIGINAL)
    if part is None or original is None:
        return None
    return LogRule(
        "by ratio",
        on="keys",
        of="length",
        start=float(original),
        scale=_CHUNK_SCALE,
        keys=_stated(part, ORIGINAL),
    )


def _stated(section: Section, *keys: str) -> tuple[str, ...]:
    """Those of the keys that the file has, by their names in it."""
    return tuple(section.name(key) for key in keys if section.has(key))
