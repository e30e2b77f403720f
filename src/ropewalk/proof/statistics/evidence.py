"""How much the answers of one length weigh together: alone, or by the documents they share.

An `Evidence` turns the hits of every document into a share with an interval, and says how many
further trials would lift it above a bar. A trial is a document.

`Repeated` evidence may be looked at again and again, to stop as soon as it says enough. Who looks
at a 95 % interval after every trial, and stops when it clears the bar, is wrong more often than 5 %
of the time: of models exactly at a bar of 0.85, looking at Wilson's interval from the 10th to the
100th answer passes 8 in 100, one look 3. A confidence sequence holds at all looks together,
however many they are, and asks for more trials in return: at full marks and a bar of 0.85, 33
answers instead of 22, or 22 documents of 5 answers instead of 10.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ropewalk.proof.statistics.intervals import (
    Counts,
    Ends,
    Likeness,
    likeness_of,
    never_left,
    over_documents,
    spread,
    wilson,
)
from ropewalk.proof.summary import Share
from ropewalk.short import short

MOST_ANSWERS = 100_000
"""Where the search for a sufficient number of answers a length stops."""

FEWEST_DOCUMENTS = 5
"""Documents that a length needs before it can be certain, where answers share them."""


@short
@dataclass(frozen=True, slots=True)
class Independent:
    """Every answer has a needle, a place and a prompt of its own: Wilson's interval.

    Prompts of one trial may be filled from the same text; what they ask for is drawn anew.
    """

    least: int = 0
    """Documents below which nothing is certain."""
    unit: str = "trial"
    interval: str = "Wilson 95 %"
    """What the intervals are called in reports."""

    def beside(self, others: Iterable[Sequence[Counts]]) -> Independent:  # noqa: ARG002 - one interface
        """Other lengths say nothing of this one."""
        return self

    def share(self, documents: Sequence[Counts]) -> Share:
        """The share over all answers."""
        return wilson(sum(hits for hits, _ in documents), sum(judged for _, judged in documents))

    def further(self, documents: Sequence[Counts], rate: float, bar: float, a_trial: int) -> int:
        """How many further trials lift the interval above `bar`, 0 where none or no number do."""
        return further_trials(self.share(documents), rate, bar, a_trial) or 0

    def trials(self, documents: Sequence[Counts], a_trial: int) -> int:
        """Trials that would give as many answers as there are, `a_trial` of them each."""
        return -(-sum(judged for _, judged in documents) // a_trial)


@short
@dataclass(frozen=True, slots=True)
class SharedDocuments:
    """The questions of one trial are asked of one document: the interval is over documents.

    `likeness` is what is known beforehand of how alike they are. See
    `ropewalk.proof.statistics.intervals`.
    """

    likeness: Likeness = ()
    least: int = FEWEST_DOCUMENTS
    unit: str = "document"
    interval: str = "95 %, over documents (answers of one document may be alike)"

    def share(self, documents: Sequence[Counts]) -> Share:
        """The share over all answers, with the interval over documents."""
        return over_documents(documents, self.likeness)

    def beside(self, others: Iterable[Sequence[Counts]]) -> SharedDocuments:
        """The same, with what the answers of other lengths say of how alike those here are."""
        return replace(self, likeness=likeness_of(others))

    def further(self, documents: Sequence[Counts], rate: float, bar: float, a_trial: int) -> int:
        """How many further documents lift the interval above `bar`, 0 where none or no number do.

        Further documents are like those seen; before the first, each hits at `rate`.
        """
        seen = [counts for counts in documents if counts[1]]
        missing = max(0, self.least - len(seen))
        if seen and self.share(seen).low >= bar:
            return missing
        if rate <= bar:
            return 0
        kinds = Counter(seen) or Counter({(round(rate * a_trial), a_trial): 1})
        there = kinds.total()

        def clears(number: int) -> bool:
            alike = {counts: times * number / there for counts, times in kinds.items()}
            answers = sum(judged * weight for (_, judged), weight in alike.items())
            hits = sum(hits * weight for (hits, _), weight in alike.items())
            apart = wilson(min(round(hits), round(answers)), round(answers))
            return min(spread(alike, self.likeness)[0], apart.low) >= bar

        low, high = len(seen), max(2 * len(seen), self.least)
        while not clears(high):
            low, high = high, 2 * high
            if high * a_trial > MOST_ANSWERS:
                return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if clears(middle) else (middle, high)
        return max(high - len(seen), missing)

    def trials(self, documents: Sequence[Counts], a_trial: int) -> int:  # noqa: ARG002 - one interface
        """Documents with an answer."""
        return sum(1 for _, judged in documents if judged)


def further_trials(seen: Share, rate: float, bar: float, answers_per_trial: int) -> int | None:
    """How many further trials per cell lift the interval of one length above `bar`.

    Each trial adds `answers_per_trial` judged answers (one per depth), and the length goes on
    hitting at `rate`, rounded to whole hits; 100 % stays 100 %. None when the rate does not lie
    above the bar, or when MOST_ANSWERS would not be enough. 0 when it is above already.
    """
    if seen.judged and seen.low >= bar:
        return 0
    if rate <= bar:
        return None
    for trials in range(1, MOST_ANSWERS // answers_per_trial + 1):
        judged = seen.judged + trials * answers_per_trial
        if wilson(min(judged, round(rate * judged)), judged).low >= bar:
            return trials
    return None


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

    def beside(self, others: Iterable[Sequence[Counts]]) -> Repeated:
        """The same, with what other lengths say of how alike the answers of a document are."""
        return replace(self, of=self.of.beside(others))

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
            seen = Counter(counts for counts in documents if counts[1])
            return never_left(seen, CHANCE, self.of.likeness)
        hits = sum(hits for hits, _ in documents)
        return confidence_sequence(hits, sum(judged for _, judged in documents))


Evidence = Independent | SharedDocuments | Repeated


def evidence_of(sharing: str, *, looks: str = "one") -> Evidence:
    """What answers are worth under a way of sharing prompts and of looking at them.

    `sharing`: "none", "prefix" or "branches"; `looks`: "one", or "many" for a run that is looked
    at after every trial to say whether it needs another.
    """
    kind = SharedDocuments() if sharing == "branches" else Independent()
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
