"""Facts beside facts like them: near-duplicate keys, several values, several keys."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from random import Random

from ropewalk.proof.needle import Needle, draw_needle
from ropewalk.proof.tasks.base import Hidden, Problem, at_depth
from ropewalk.proof.tasks.names import draw_needles, listed
from ropewalk.short import short

_CONSONANTS = "bdfghklmnprstvwz"
INTRODUCTION = (
    "A long report follows. Some lines in it give pass keys, which will be asked for at the end."
)


def near_duplicate(random: Random, key: str) -> str:
    """The key with one consonant inside exchanged: Barcora, Barmora."""
    places = [i for i in range(1, len(key)) if key[i] in _CONSONANTS]
    place = random.choice(places)
    other = random.choice([c for c in _CONSONANTS if c != key[place]])
    return f"{key[:place]}{other}{key[place + 1 :]}"


def _secret(needles: list[Needle]) -> tuple[str, ...]:
    return tuple(text for needle in needles for text in (needle.key, needle.value))


@short
@dataclass(frozen=True, slots=True)
class ManyKeys:
    """The pass key of one word among `decoys` whose words differ from it by one letter."""

    decoys: int = 8
    name: str = "many-keys"
    introduction: str = INTRODUCTION

    @property
    def chance(self) -> float:
        """Of one who names any of the pass keys."""
        return 1 / (1 + self.decoys)

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """The target at the cell's depth, the others anywhere."""
        needles = [draw_needle(random)]
        while len(needles) <= self.decoys:
            other = draw_needle(random, needles)
            key = near_duplicate(random, needles[0].key)
            if all(key != needle.key for needle in needles):
                needles.append(Needle(key, other.value))
        target, others = needles[0], needles[1:]
        return Problem(
            hidden=at_depth(
                depth, target.sentence, [Hidden(n.sentence, random.random()) for n in others]
            ),
            question=target.question,
            opening=target.opening,
            values=(target.value,),
            key=target.key,
            wrong=tuple(other.value for other in others),
            secret=_secret(needles),
        )


@short
@dataclass(frozen=True, slots=True)
class ManyValues:
    """All `count` pass keys of one word, with as many of another word beside."""

    count: int = 3
    name: str = "many-values"
    introduction: str = INTRODUCTION

    @property
    def chance(self) -> float:
        """Of one who names `count` of all the pass keys."""
        return 1 / comb(2 * self.count, self.count)

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """One value at the cell's depth, all others anywhere."""
        needles = draw_needles(random, 2 * self.count)
        key, other = needles[0].key, needles[1].key
        said = [
            f"One of the pass keys of {key if i < self.count else other} is {needle.value}."
            for i, needle in enumerate(needles)
        ]
        # The answer is given in the order of the text, which a base model would follow.
        shares = [depth, *(random.random() for _ in said[1:])]
        asked = sorted(range(self.count), key=lambda i: shares[i])
        return Problem(
            hidden=at_depth(
                depth,
                said[0],
                [Hidden(text, share) for text, share in zip(said[1:], shares[1:], strict=True)],
            ),
            question=f"What are the {self.count} pass keys of {key}?",
            opening=f"The pass keys of {key} are",
            values=tuple(needles[i].value for i in asked),
            key=key,
            wrong=tuple(needle.value for needle in needles[self.count :]),
            secret=(key, other, *(needle.value for needle in needles)),
            noun=f"{self.count} pass keys",
        )


@short
@dataclass(frozen=True, slots=True)
class ManyQueries:
    """The pass keys of `count` words in one question, with as many words beside."""

    count: int = 3
    name: str = "many-queries"
    introduction: str = INTRODUCTION

    @property
    def chance(self) -> float:
        """Of one who names `count` of all the pass keys."""
        return 1 / comb(2 * self.count, self.count)

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """One of those asked for at the cell's depth, all others anywhere."""
        needles = draw_needles(random, 2 * self.count)
        asked = random.sample(needles[: self.count], self.count)
        keys = listed([needle.key for needle in asked])
        return Problem(
            hidden=at_depth(
                depth,
                needles[0].sentence,
                [Hidden(needle.sentence, random.random()) for needle in needles[1:]],
            ),
            question=f"What are the pass keys of {keys}?",
            opening=f"The pass keys of {keys} are",
            values=tuple(needle.value for needle in asked),
            key=keys,
            wrong=tuple(needle.value for needle in needles[self.count :]),
            secret=_secret(needles),
            noun="pass keys",
        )
