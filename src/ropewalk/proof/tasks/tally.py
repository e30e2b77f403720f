"""What only the whole text answers: what comes most often, how often, and what came first."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from random import Random

from ropewalk.proof.needles import Hidden, Problem, at_depth, draw_words, listed
from ropewalk.short import short

_ROUND = 1024
"""Tokens of text in which every candidate gets its votes once."""


def _rounds(length: int) -> int:
    return max(1, length // _ROUND)


@short
@dataclass(frozen=True, slots=True)
class CommonWord:
    """Who got the most votes of all: three times as many as each of the others.

    The winner's middle vote stands at the cell's depth, all others anywhere.
    """

    others: int = 6
    name: str = "common-words"
    introduction: str = (
        "A long report follows. Some lines in it are votes for candidates. At the end it will be "
        "asked who got the most votes."
    )

    @property
    def chance(self) -> float:
        """Of one who names any of the candidates."""
        return 1 / (1 + self.others)

    def draw(self, random: Random, _depth: float, length: int, /) -> Problem:
        """Votes in proportion to the length."""
        names = draw_words(random, 1 + self.others)
        rounds = _rounds(length)
        cast = [names[0]] * (3 * rounds - 1) + [n for n in names[1:] for _ in range(rounds)]
        beside = [Hidden(f"A vote was cast for {name}.", random.random()) for name in cast]
        return Problem(
            hidden=(Hidden(f"A vote was cast for {names[0]}."), *beside),
            question="For whom were the most votes cast?",
            opening="The most votes were cast for",
            values=(names[0],),
            key="the most votes",
            wrong=tuple(names[1:]),
            secret=tuple(names),
            noun="name",
        )


@short
@dataclass(frozen=True, slots=True)
class FrequentWords:
    """The three marks that come most often, where how often falls as it does in a language."""

    name: str = "frequent-words"
    introduction: str = (
        "A long report follows. Some lines in it name the mark on a parcel. At the end the three "
        "marks that came most often will be asked for."
    )
    often: tuple[int, ...] = (8, 6, 4, 2, 1, 1)
    """How often each mark comes in a round."""

    @property
    def chance(self) -> float:
        """Of one who names any three of the marks."""
        return 1 / comb(len(self.often), 3)

    def draw(self, random: Random, _depth: float, length: int, /) -> Problem:
        """Marks in proportion to the length; one of the most frequent at the cell's depth."""
        marks = draw_words(random, len(self.often))
        rounds = _rounds(length)
        said = [
            m for m, often in zip(marks, self.often, strict=True) for _ in range(often * rounds)
        ]
        beside = [Hidden(f"Mark: {mark}.", random.random()) for mark in said[1:]]
        return Problem(
            hidden=(Hidden(f"Mark: {said[0]}."), *beside),
            question="Which three marks came most often?",
            opening="The three marks that came most often are",
            values=tuple(marks[:3]),
            key="the most frequent marks",
            wrong=tuple(marks[3:]),
            secret=tuple(marks),
            noun="three marks",
        )


@short
@dataclass(frozen=True, slots=True)
class Count:
    """How many ships arrived, of two to seven."""

    name: str = "count"
    introduction: str = (
        "A long report follows. Some lines in it say that a ship has arrived. At the end it will "
        "be asked how many ships have."
    )
    fewest: int = 2
    most: int = 7

    @property
    def chance(self) -> float:
        """Of one who names any of the possible numbers."""
        return 1 / (self.most - self.fewest + 1)

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """One of the ships at the cell's depth, the others anywhere."""
        ships = draw_words(random, random.randint(self.fewest, self.most))
        said = [f"The ship {ship} has arrived." for ship in ships]
        beside = [Hidden(text, random.random()) for text in said[1:]]
        return Problem(
            hidden=at_depth(depth, said[0], beside),
            question="How many ships have arrived?",
            opening="The number of ships that have arrived is",
            values=(str(len(ships)),),
            key="ships",
            wrong=tuple(str(n) for n in range(21) if n != len(ships)),
            secret=tuple(ships),
            noun="number",
        )


@short
@dataclass(frozen=True, slots=True)
class OrderTask:
    """Which of three ships arrived first."""

    name: str = "order"
    introduction: str = (
        "A long report follows. Some lines in it say that a ship has arrived. At the end it will "
        "be asked which ship was the first."
    )
    chance: float = 1 / 3

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """The first ship at the cell's depth, the others behind it."""
        ships = draw_words(random, 3)
        later = sorted(random.uniform(depth, 1) for _ in ships[1:])
        named = listed(random.sample(ships, 3))
        said = [f"The ship {ship} has arrived." for ship in ships]
        return Problem(
            hidden=(
                Hidden(said[0]),
                *(Hidden(text, share) for text, share in zip(said[1:], later, strict=True)),
            ),
            question=f"Which of the ships {named} was the first to arrive?",
            opening="The first ship to arrive was the ship",
            values=(ships[0],),
            key=named,
            wrong=tuple(ships[1:]),
            secret=tuple(ships),
            noun="name",
        )
