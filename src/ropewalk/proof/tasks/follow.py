"""Facts that must be put together: chains of assignments, a table to look up in, a correction."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random

from ropewalk.proof.tasks.base import Hidden, Problem, at_depth
from ropewalk.proof.tasks.names import draw_needles, draw_words
from ropewalk.short import short


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
class Join:
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
