"""What a task is: it draws problems, and says what guessing would score.

A problem names its hidden sentences and where they go, the question and the right values; how it
becomes a prompt of an exact length is the same for all (`ropewalk.proof.prompt`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Hidden:
    """A sentence to hide at `share` of the haystack (0 to 1); None is the depth of the cell."""

    sentence: str
    share: float | None = None


def at_depth(depth: float, target: str, beside: Iterable[Hidden]) -> tuple[Hidden, ...]:
    """The target, at the cell's depth, among others that stand anywhere.

    Of those in its place it comes first in the first half of the text, and last in the second.
    """
    here = Hidden(target)
    return (*beside, here) if depth > 0.5 else (here, *beside)


@short
@dataclass(frozen=True, slots=True)
class Problem:
    """What is hidden and asked in one prompt.

    One of `hidden` has no share: its place is the cell's depth, and is what is recorded as it.
    Sentences of the same place stand in the given order. A base model goes on behind `opening`
    with `value`. `secret` must not occur in the haystack: keys and values. `wrong` are answers
    that show a confusion. `noun` names what a chat answer is to consist of. `sentences` are a
    haystack of the problem's own.
    """

    hidden: tuple[Hidden, ...]
    question: str
    opening: str
    values: tuple[str, ...]
    key: str
    wrong: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    noun: str = "pass key"
    sentences: tuple[str, ...] | None = None

    @property
    def value(self) -> str:
        """The right answer as one text: all values, in the order in which they are hidden."""
        return ", ".join(self.values)


class Task(Protocol):
    """Draws problems of one kind; the same random state draws the same problem."""

    @property
    def name(self) -> str:
        """As it is written after --task."""

    @property
    def introduction(self) -> str:
        """The first line of the prompt: what is to be looked out for."""

    @property
    def chance(self) -> float:
        """The share of HITs of one who knows the form of an answer and guesses."""

    def draw(self, random: Random, depth: float, length: int, /) -> Problem:
        """A problem for a prompt of about `length` tokens, to be found at `depth` (0 to 1)."""


def corrected(share: float, chance: float) -> float:
    """A share of hits with guessing taken out: 0 for what guessing scores, 1 for all right.

    (share - chance) / (1 - chance), below 0 for less than guessing. Raises ValueError when
    guessing is always right, because then nothing can be said.
    """
    if not 0 <= chance < 1:
        raise ValueError(f"a chance level of {chance:g} leaves nothing to measure: 0 to below 1")
    return (share - chance) / (1 - chance)
