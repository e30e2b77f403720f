"""One hidden fact, and the question for it: a made-up word's pass key, with other keys beside.

Facts beside facts like them: near-duplicate keys, several values, several keys.

Facts that must be put together: chains of assignments, a table to look up in, a correction.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import comb
from random import Random

from ropewalk.proof.needles import (
    VALUE_DIGITS,
    Hidden,
    Needle,
    Problem,
    at_depth,
    draw_needle,
    draw_needles,
    draw_words,
    listed,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Single:
    """The pass key of one made-up word; `distractors` more of them stand at random depths."""

    distractors: int = 0
    name: str = "single"
    introduction: str = (
        "A long report follows. One line in it gives a pass key, which will be asked for at the "
        "end."
    )
    # Nine first digits, and nine others for each that follows: neighbours differ.
    chance: float = 9.0**-VALUE_DIGITS

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """One needle at the cell's depth, the distractors anywhere."""
        needles: list[Needle] = []
        for _ in range(1 + self.distractors):
            needles.append(draw_needle(random, needles))
        target, others = needles[0], needles[1:]
        beside = [Hidden(other.sentence, random.random()) for other in others]
        here = Hidden(target.sentence)
        return Problem(
            # First at depth 0 and last at depth 1, also where another shares the place.
            hidden=(*beside, here) if depth > 0.5 else (here, *beside),
            question=target.question,
            opening=target.opening,
            values=(target.value,),
            key=target.key,
            wrong=tuple(other.value for other in others),
            secret=tuple(text for needle in needles for text in (needle.key, needle.value)),
        )


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


@short
@dataclass(frozen=True, slots=True)
class Variables:
    """The value at the end of a chain of `hops` assignments, with `decoys` other chains."""

    hops: int = 3
    decoys: int = 2
    name: str = "variables"
    introduction: str = (
        "A long report follows. Some lines in it give values to variables, one of which will be "
        "asked for at the end."
    )

    @property
    def chance(self) -> float:
        """Of one who names any of the numbers."""
        return 1 / (1 + self.decoys)

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """The last link at the cell's depth, earlier ones before it; other chains anywhere."""
        chains = 1 + self.decoys
        words = draw_words(random, chains * (self.hops + 1))
        values = [needle.value for needle in draw_needles(random, chains)]
        hidden: list[Hidden] = []
        for chain, value in enumerate(values):
            names = words[chain * (self.hops + 1) : (chain + 1) * (self.hops + 1)]
            links = [f"The variable {names[0]} is {value}."]
            links += [f"The variable {b} is equal to {a}." for a, b in pairwise(names)]
            end = depth if chain == 0 else random.random()
            shares = sorted(random.uniform(0, end) for _ in links[1:])
            hidden += [Hidden(link, share) for link, share in zip(links, shares, strict=False)]
            hidden.append(Hidden(links[-1], None if chain == 0 else end))
        asked = words[self.hops]
        return Problem(
            hidden=tuple(hidden),
            question=f"What number is the value of the variable {asked}?",
            opening=f"The value of the variable {asked} is the number",
            values=(values[0],),
            key=asked,
            wrong=tuple(values[1:]),
            secret=(*words, *values),
            noun="number",
        )


@short
@dataclass(frozen=True, slots=True)
class JoinTask:
    """A fact that shares no word with its question; lines of a table join the two.

    The table (which house stands in which town) is invented for each prompt and stated in it, so
    that nothing has to be known from elsewhere.
    """

    people: int = 3
    name: str = "join"
    introduction: str = (
        "A long report follows. Some lines in it tell where people slept, and where houses stand, "
        "which will be asked for at the end."
    )

    @property
    def chance(self) -> float:
        """Of one who names any of the people."""
        return 1 / self.people

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """The fact at the cell's depth; the table's lines and the other facts anywhere."""
        words = draw_words(random, 3 * self.people)
        people, houses, towns = (words[i::3] for i in range(3))
        facts = [f"{p} slept at the {h} house." for p, h in zip(people, houses, strict=True)]
        table = [f"{t} is where one finds {h}." for t, h in zip(towns, houses, strict=True)]
        beside = [Hidden(text, random.random()) for text in (*facts[1:], *table)]
        return Problem(
            hidden=at_depth(depth, facts[0], beside),
            question=f"Who spent a night in {towns[0]}?",
            opening=f"The one who spent a night in {towns[0]} was",
            values=(people[0],),
            key=towns[0],
            wrong=tuple(people[1:]),
            secret=tuple(words),
            noun="name",
        )


@short
@dataclass(frozen=True, slots=True)
class Contradiction:
    """A pass key that is given and later changed: the later one holds."""

    name: str = "contradiction"
    introduction: str = (
        "A long report follows. A line in it gives a pass key, and a later line changes it. The "
        "pass key that holds at the end will be asked for."
    )
    chance: float = 0.5

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """The change at the cell's depth, the first key anywhere before it."""
        first, second = draw_needles(random, 2)
        key = first.key
        return Problem(
            hidden=(
                Hidden(f"The pass key of {key} is {first.value}.", random.uniform(0, depth)),
                Hidden(f"The pass key of {key} was changed: the new one is {second.value}."),
            ),
            question=f"What is the new pass key of {key}?",
            opening=f"The new pass key of {key} is",
            values=(second.value,),
            key=key,
            wrong=(first.value,),
            secret=(key, first.value, second.value),
        )
