"""Occurrences of a word in groups, one for each sense: given, or found from their cosines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from ropewalk.errors import UsageError
from ropewalk.short import short

Square = tuple[tuple[float, ...], ...]


@short
@dataclass(frozen=True, slots=True)
class Senses:
    """`labels[i]` is the group of occurrence i. `layer` is where they were found, None if given."""

    labels: tuple[str, ...]
    layer: str | None = None

    def within(self, cosines: Square) -> float | None:
        """The mean cosine of pairs in one group; None where every group is one occurrence."""
        return self._mean(cosines, same=True)

    def across(self, cosines: Square) -> float:
        """The mean cosine of pairs in different groups."""
        found = self._mean(cosines, same=False)
        return 0.0 if found is None else found

    def _mean(self, cosines: Square, *, same: bool) -> float | None:
        pairs = [
            cosines[i][j]
            for i, j in combinations(range(len(self.labels)), 2)
            if (self.labels[i] == self.labels[j]) is same
        ]
        return fmean(pairs) if pairs else None


def given_senses(labels: Sequence[str], count: int) -> Senses:
    """The groups a caller names. Raises UsageError unless there is one name for each occurrence,
    and more than one group.
    """
    made = tuple(label.strip() for label in labels)
    if len(made) != count or "" in made:
        raise UsageError(
            f"{len(made)} groups were given for {count} occurrences; name one for each, in order, "
            "like river,river,money,money"
        )
    if len(set(made)) < 2:
        raise UsageError(f"all occurrences are in one group, {made[0]!r}; name two or more")
    return Senses(made)


def found_senses(layers: Sequence[tuple[str, Square]]) -> Senses:
    """Two groups by average linkage at the layer where within and across part furthest.

    `layers`: names and cosines. With three occurrences or more there is always an answer: it says
    how they part, not that they differ in sense.
    """
    best: tuple[float, Senses] | None = None
    for name, cosines in layers:
        senses = Senses(_linked(cosines), name)
        gap = (senses.within(cosines) or 0.0) - senses.across(cosines)
        if best is None or gap > best[0]:
            best = gap, senses
    if best is None:
        raise UsageError("no layers were given to find groups in")
    return best[1]


def _linked(cosines: Square) -> tuple[str, ...]:
    """ "A" or "B" for each: the closest two groups are joined until two are left."""
    groups = [[i] for i in range(len(cosines))]
    while len(groups) > 2:
        one, other = max(
            combinations(range(len(groups)), 2),
            key=lambda pair: fmean(cosines[i][j] for i in groups[pair[0]] for j in groups[pair[1]]),
        )
        groups[one] += groups.pop(other)
    # The first occurrence is always in A.
    return tuple(
        "A" if i in next(g for g in groups if 0 in g) else "B" for i in range(len(cosines))
    )
