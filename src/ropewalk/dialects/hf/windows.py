"""How many tokens a window or a chunk has, by any of its keys or by default."""

from __future__ import annotations

from ropewalk.dialects.hf.defaults import ContentBiasFacts, Facts, RotaryFacts
from ropewalk.dialects.values import MAX_LENGTH, Section


def window_size(config: Section, facts: Facts) -> int | None:
    """`sliding_window` in tokens, or the class default where the key is absent."""
    key = "local_attention" if "local_attention" in config.values else "sliding_window"
    if isinstance(facts, ContentBiasFacts) and "sliding_window_size" in config.values:
        key = "sliding_window_size"
    stated = config.count(key, MAX_LENGTH, least=0)
    if key == "local_attention" and config.values.get("sliding_window") == (stated or 0) // 2:
        # The class writes its half beside it.
        config.take("sliding_window")
    if stated == 0:
        # Published files use 0 for "none".
        return None
    if stated is not None and key == "local_attention" and not two_sided(facts):
        # ModernBERT's count is of both sides, of which its decoder has one.
        return stated // 2
    if stated is not None or key in config.values:
        return stated
    return facts.window if isinstance(facts, RotaryFacts | ContentBiasFacts) else None


def two_sided(facts: Facts) -> bool:
    """Whether a window reaches to both sides."""
    return isinstance(facts, RotaryFacts) and facts.two_sided


def chunk_size(config: Section) -> int | None:
    """`attention_chunk_size` in tokens; 8192 is the default where the key is absent."""
    stated = config.length("attention_chunk_size")
    return 8192 if stated is None and "attention_chunk_size" not in config.values else stated
