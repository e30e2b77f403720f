"""How much the answers of one length weigh together: alone, or by the documents they share.

An `Evidence` turns the hits of every document into a share with an interval, and says how many
further trials would lift it above a bar. A trial is a document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.proof.statistics.clusters import Counts, over_documents, spread
from ropewalk.proof.statistics.intervals import wilson
from ropewalk.proof.summary import Share
from ropewalk.short import short

MOST_ANSWERS = 100_000
"""Where the search for a sufficient number of answers a length stops."""

FEWEST_DOCUMENTS = 10
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

    See `ropewalk.proof.statistics.clusters`.
    """

    least: int = FEWEST_DOCUMENTS
    unit: str = "document"
    interval: str = "95 %, over documents (answers of one document may be alike)"

    def share(self, documents: Sequence[Counts]) -> Share:
        """The share over all answers, with the interval over documents."""
        return over_documents(documents)

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
            return min(spread(alike)[0], apart.low) >= bar

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
    """How many further trials a cell lift the interval of one length above `bar`.

    Each trial adds `answers_per_trial` judged answers (one a depth), and the length goes on
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
