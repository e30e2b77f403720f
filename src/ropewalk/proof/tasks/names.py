"""What several tasks draw: made-up words and numbers that cannot be mixed up by accident."""

from __future__ import annotations

from random import Random

from ropewalk.proof.needle import Needle, draw_needle


def draw_needles(random: Random, count: int) -> list[Needle]:
    """`count` needles of which no key begins another and no value is another's."""
    needles: list[Needle] = []
    for _ in range(count):
        needles.append(draw_needle(random, needles))
    return needles


def draw_words(random: Random, count: int) -> list[str]:
    """`count` made-up capitalised words, none of which begins another."""
    return [needle.key for needle in draw_needles(random, count)]


def listed(words: list[str]) -> str:
    """Words as a sentence names them: A, B and C."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
