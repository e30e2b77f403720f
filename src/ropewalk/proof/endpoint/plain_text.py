"""Text to find out by what a server takes and how it counts: of the kind that haystacks are of."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from secrets import randbelow

from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.tokens import Tokens


def sentences(tokens: Tokens, size: int) -> Sequence[str]:
    """Sentences of at least `size` tokens; always the same."""
    found, total = [], 0
    for sentence in GeneratedHaystack(Random("calibration")).sentences():
        found.append(sentence)
        total += tokens.inner(sentence)
        if total >= size:
            break
    return found


def beginning(given: Sequence[str], size: int, tokens: Tokens) -> str:
    """The first sentences that make `size` tokens, behind a line that was never said.

    A text that began like one before would in part come from a cache.
    """
    taken, total = [fresh_line()], tokens.inner(fresh_line())
    for sentence in given:
        if total >= size - 1:
            break
        taken.append(sentence)
        total += tokens.inner(sentence)
    return " ".join(taken)


def fresh_line() -> str:
    """A line that was never said before: digits, of which no tokenizer makes more tokens."""
    return f"Copy {randbelow(10**12):012}.\n"
