"""Do the intervals of a proof hold the true share, and how often is one of its verdicts wrong?

Simulated proofs: six lengths of which each has a share of its own, and documents of five answers
whose own shares vary around it (beta-binomial, correlation r). For every setting (r from none to
strong, documents from 3 to 30) it prints how often the interval holds the true share, how wide it
is beside that of one length alone, and how often a verdict is wrong: a length at the bar is said to
pass (or a length that passes to fail). With `many` looks a run is judged after every document and
stops when its verdict is there.

    python -m benchmarks.coverage [--runs 2000] [--write]

Minutes on a core with 2,000 runs. `--write` rewrites benchmarks/results/coverage.txt. Needs
ropewalk[prove]. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.closing import Row, closing_line
from ropewalk.proof.statistics.evidence import Repeated, SharedDocuments
from ropewalk.proof.statistics.intervals import Counts

RESULT = Path(__file__).parent / "results" / "coverage.txt"
ANSWERS = 5
BAR = 0.85
SHARES = (1.0, 0.97, 0.92, BAR, 0.7, 0.5)
"""Of the six lengths, one of them at the bar."""
CORRELATIONS = (0.0, 0.05, 0.15, 0.3)
DOCUMENTS = (3, 5, 10, 30)
LOOKS = 12
"""Documents after which a run that is looked at after each of them is given up."""


@dataclass(slots=True)
class Tally:
    """What came of the runs of one setting."""

    inside: int = 0
    intervals: int = 0
    width: float = 0.0
    alone: float = 0.0
    wrong: int = 0
    verdicts: int = 0

    @property
    def coverage(self) -> float:
        """The share of intervals that hold the true share."""
        return self.inside / self.intervals

    @property
    def error(self) -> float:
        """The share of verdicts that are wrong, of those on lengths at the bar or beside it."""
        return self.wrong / max(1, self.verdicts)


def drawn(
    random: np.random.Generator, share: float, correlation: float, documents: int
) -> list[Counts]:
    """Hits and answers of documents; a share of 1 or a correlation of 0 has nothing to vary."""
    shares = np.full(documents, share)
    if 0 < share < 1 and correlation:
        scale = (1 - correlation) / correlation
        shares = random.beta(share * scale, (1 - share) * scale, documents)
    return [(int(hits), ANSWERS) for hits in random.binomial(ANSWERS, shares)]


def lengths_of(
    random: np.random.Generator, correlation: float, documents: int
) -> Iterator[tuple[float, list[Counts], list[list[Counts]]]]:
    """Every length of one simulated proof: true share, its documents, those of the others."""
    every = [drawn(random, share, correlation, documents) for share in SHARES]
    for place, share in enumerate(SHARES):
        yield share, every[place], [each for i, each in enumerate(every) if i != place]


def once(correlation: float, documents: int, runs: int) -> Tally:
    """Runs that are judged once, at their end."""
    random = np.random.default_rng([int(100 * correlation), documents])
    found = Tally()
    for _ in range(runs):
        for share, own, others in lengths_of(random, correlation, documents):
            interval = SharedDocuments().beside(others).share(own)
            alone = SharedDocuments().share(own)
            found.intervals += 1
            found.inside += interval.low <= share <= interval.high
            found.width += interval.high - interval.low
            found.alone += alone.high - alone.low
            if share <= BAR:
                found.verdicts += 1
                found.wrong += documents >= SharedDocuments().least and interval.low > BAR
            else:
                found.verdicts += 1
                found.wrong += interval.high < BAR
    return found


def many(correlation: float, runs: int) -> Tally:
    """Runs that are judged after every document, and stop when a verdict is there."""
    random = np.random.default_rng([int(100 * correlation), 99])
    found = Tally()
    evidence = Repeated(SharedDocuments())
    for _ in range(runs):
        for share, own, others in lengths_of(random, correlation, LOOKS):
            if share not in (BAR, 0.92):
                continue
            found.verdicts += 1
            for seen in range(2, LOOKS + 1):
                beside = evidence.beside([each[:seen] for each in others])
                interval = beside.share(own[:seen])
                if seen >= evidence.least and interval.low > BAR:
                    found.wrong += share <= BAR
                    break
                if interval.high < BAR:
                    found.wrong += share >= BAR
                    break
    return found


def main() -> None:
    """Print both tables and the closing line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = ["correlation  documents  coverage  width  width alone  wrong verdicts"]
    rows: list[Row] = []
    for correlation, documents in product(CORRELATIONS, DOCUMENTS):
        found = once(correlation, documents, given.runs)
        lines.append(
            f"{correlation:11}  {documents:9}  {found.coverage:8.3f}  "
            f"{found.width / found.intervals:5.3f}  {found.alone / found.intervals:11.3f}  "
            f"{found.error:14.3f}"
        )
        name = f"r {correlation}, {documents} documents"
        rows.append(Row(f"{name}: coverage", round(found.coverage, 4), "share", 0.94))
        rows.append(Row(f"{name}: wrong", round(found.error, 4), "share", 0.05, at_most=True))
    lines += ["", "correlation  wrong verdicts, looked at after every document"]
    for correlation in CORRELATIONS:
        found = many(correlation, max(20, given.runs // 10))
        lines.append(f"{correlation:11}  {found.error:.3f}")
        name = f"r {correlation}, many looks"
        rows.append(Row(f"{name}: wrong", round(found.error, 4), "share", 0.05, at_most=True))
    lines.append(closing_line("coverage", rows, runs=given.runs, answers=ANSWERS, bar=BAR))
    text = "\n".join(lines)
    print(text)
    if given.write:
        RESULT.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
