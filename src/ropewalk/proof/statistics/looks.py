"""Intervals that may be looked at again and again, to stop as soon as they say enough.

Who looks at a 95 % interval after every trial, and stops when it clears the bar, is wrong more
often than 5 % of the time: of models exactly at a bar of 0.85, looking at Wilson's interval from
the 10th to the 100th answer passes 8 in 100, one look 3. A confidence sequence holds at all looks
together, however many they are, and asks for more trials in return: at full marks and a bar of
0.85, 33 answers instead of 22, or 22 documents of 5 answers instead of 10.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ropewalk.proof.statistics.clusters import Counts, Ends, never_left
from ropewalk.proof.statistics.evidence import MOST_ANSWERS, Independent, SharedDocuments
from ropewalk.proof.summary import Share
from ropewalk.short import short

CHANCE = 0.05
"""How likely the true share ever leaves its interval, both ends together."""


@short
@dataclass(frozen=True, slots=True)
class Repeated:
    """Answers that are judged anew after every trial, by a confidence sequence."""

    of: Independent | SharedDocuments

    @property
    def least(self) -> int:
        """Documents below which nothing is certain."""
        return self.of.least

    @property
    def unit(self) -> str:
        """What a further trial brings."""
        return self.of.unit

    @property
    def interval(self) -> str:
        """What the intervals are called in reports."""
        over = ", over documents" if isinstance(self.of, SharedDocuments) else ""
        return f"95 % at all looks together (a confidence sequence){over}"

    def share(self, documents: Sequence[Counts]) -> Share:
        """The share over all answers; its interval is never narrower than that of one look."""
        once = self.of.share(documents)
        if not once.judged:
            return once
        low, high = self._ends(documents)
        return replace(once, low=min(once.low, low), high=max(once.high, high))

    def further(self, documents: Sequence[Counts], rate: float, bar: float, a_trial: int) -> int:
        """How many further trials like those seen lift the interval above `bar`, 0 if none do."""
        if rate <= bar:
            return 0
        seen = [counts for counts in documents if counts[1]] or [(round(rate * a_trial), a_trial)]
        start = self.of.trials(documents, a_trial)

        def clears(number: int) -> bool:
            # In turn, so that the pattern seen goes on.
            there = [seen[i % len(seen)] for i in range(start + number)]
            return len(there) >= self.least and self.share(there).low >= bar

        few, enough = 0, 1
        while not clears(enough):
            few, enough = enough, 2 * enough
            if enough * a_trial > MOST_ANSWERS:
                return 0
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if clears(middle) else (middle, enough)
        return enough

    def trials(self, documents: Sequence[Counts], a_trial: int) -> int:
        """Trials that would give as many answers as there are."""
        return self.of.trials(documents, a_trial)

    def _ends(self, documents: Sequence[Counts]) -> Ends:
        shared = any(judged > 1 for _, judged in documents)
        if isinstance(self.of, SharedDocuments) and shared:
            return never_left(Counter(counts for counts in documents if counts[1]), CHANCE)
        hits = sum(hits for hits, _ in documents)
        return confidence_sequence(hits, sum(judged for _, judged in documents))


Evidence = Independent | SharedDocuments | Repeated


def evidence_of(sharing: str, *, looks: str = "one") -> Evidence:
    """What answers are worth under a way of sharing prompts and of looking at them.

    `sharing`: "none", "prefix" or "nested"; `looks`: "one", or "many" for a run that is looked
    at after every trial to say whether it needs another.
    """
    kind = SharedDocuments() if sharing == "nested" else Independent()
    return Repeated(kind) if looks == "many" else kind


def confidence_sequence(hits: int, judged: int, chance: float = CHANCE) -> Ends:
    """The shares t at which the wager against t has not yet been won, 1 / chance to one.

    The wager is a mixture of likelihoods over Jeffreys' prior by the likelihood of t:
    B(hits + 1/2, misses + 1/2) / (pi t^hits (1 - t)^misses), a martingale if t is the truth
    (H. Robbins, 1970). Returns (0, 1) for no answers.
    """
    misses = judged - hits
    mixture = (
        math.lgamma(hits + 0.5) + math.lgamma(misses + 0.5) - math.lgamma(judged + 1)
    ) - math.log(math.pi)

    def stays(share: float) -> bool:
        likelihood = hits * math.log(share) + misses * math.log1p(-share)
        return mixture - likelihood < -math.log(chance)

    middle = min(max(hits / judged if judged else 0.5, 1e-12), 1 - 1e-12)
    low = _between(1e-300, middle, stays) if hits else 0.0
    high = _between(1 - 1e-16, middle, stays) if misses else 1.0
    return low, high


def _between(outside: float, inside: float, stays: Callable[[float], bool]) -> float:
    """Where `stays` turns from false to true, by bisection."""
    for _ in range(60):
        half = (outside + inside) / 2
        outside, inside = (outside, half) if stays(half) else (half, inside)
    return outside
