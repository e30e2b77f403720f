"""Whether a schedule that was searched for may take the place of the best closed form.

Two questions, on prompts that the search has never seen. Is it better over the gaps by which the
search was led, beyond chance? And do gaps and whole prompts say the same of the schedules at all?
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ropewalk.extension.skip import Gap
from ropewalk.proof.cells import Row
from ropewalk.proof.statistics.paired import MeanDifference, mean_difference
from ropewalk.short import short

CLEAR = 1.0
"""Nats by which two schedules have to differ, by gaps and by whole prompts, to say something."""


@short
@dataclass(frozen=True, slots=True)
class Agreement:
    """In which pairs of schedules gaps and whole prompts name the same one as the better.

    `cells` are the depths compared; `same` of `pairs` agree, pairs that differ clearly in both.
    """

    cells: tuple[float, ...]
    pairs: int
    same: int

    @property
    def trusted(self) -> bool:
        """Whether there is something to go by, in two cells at least, and all of it agrees."""
        return len(self.cells) >= 2 and self.pairs > 0 and self.same == self.pairs


@short
@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a search. `gaps` and `whole` are found less closed form, nats a trial."""

    closed: str
    gaps: MeanDifference
    whole: MeanDifference
    agreement: Agreement

    @property
    def wins(self) -> bool:
        """Whether the searched schedule is to be written."""
        low = self.gaps.low
        return low is not None and low > 0 and self.whole.value >= 0 and self.agreement.trusted

    def lines(self) -> list[str]:
        """The verdict in sentences."""
        agreement = self.agreement
        depths = ", ".join(f"{depth:.0%}" for depth in agreement.cells)
        told = [
            f"On {self.gaps.count} held-out prompts with gaps the searched schedule is "
            f"{_shown(self.gaps)} nats above {self.closed}.",
            f"On whole prompts of the full length it is {_shown(self.whole)} nats above it.",
            f"Gaps and whole prompts rank the schedules alike in {agreement.same} of "
            f"{agreement.pairs} pairs that clearly differ (depths {depths}).",
        ]
        if not agreement.pairs:
            told[-1] = "No two schedules clearly differ, so that gaps and whole prompts rank none."
        if self.wins:
            told.append(
                f"It is better than {self.closed} over gaps, beyond chance, and not below it on "
                "whole prompts: it is what is written."
            )
        elif not agreement.trusted:
            told.append(
                "Whole prompts do not confirm what the search was led by: "
                f"{self.closed} is written."
            )
        else:
            told.append(
                f"It was not seen to be better than {self.closed} beyond chance: {self.closed} is "
                "what is written."
            )
        return told


def gap_difference(found: Sequence[Gap], closed: Sequence[Gap]) -> MeanDifference:
    """Mean over gaps of a trial, found less closed, and its interval over trials."""
    theirs = {(gap.trial, gap.depth): gap.log_probability for gap in closed}
    trials: dict[int, list[float]] = {}
    for gap in found:
        apart = gap.log_probability - theirs[gap.trial, gap.depth]
        trials.setdefault(gap.trial, []).append(apart)
    return mean_difference([math.fsum(each) / len(each) for each in trials.values()])


def agreement(
    gaps: Mapping[str, Sequence[Gap]], whole: Mapping[str, Sequence[Row]], depths: Sequence[float]
) -> Agreement:
    """Compare every two schedules, at every depth that was asked both ways."""
    pairs = same = 0
    cells = []
    for depth in depths:
        by_gap = {name: _mean([g.log_probability for g in found if g.depth == depth])
                  for name, found in gaps.items()}  # fmt: skip
        by_row = {name: _mean([r.answer.log_probability for r in rows if r.cell.depth == depth])
                  for name, rows in whole.items()}  # fmt: skip
        names = [n for n in by_gap if by_gap[n] is not None and by_row.get(n) is not None]
        if len(names) >= 2:
            cells.append(depth)
        for one, other in combinations(names, 2):
            first = _less(by_gap[one], by_gap[other])
            second = _less(by_row[one], by_row[other])
            if abs(first) >= CLEAR and abs(second) >= CLEAR:
                pairs += 1
                same += (first > 0) == (second > 0)
    return Agreement(tuple(cells), pairs, same)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _less(one: float | None, other: float | None) -> float:
    return (one or 0.0) - (other or 0.0)


def _shown(apart: MeanDifference) -> str:
    if apart.low is None or apart.high is None:
        return f"{apart.value:+.2f}"
    return f"{apart.value:+.2f} ({apart.low:+.2f} to {apart.high:+.2f}, 95 %)"
