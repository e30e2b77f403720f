"""A program: a search over a made-up score, slow enough to be killed in the middle.

python search_program.py FOLDER TRIES SECONDS
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ropewalk.extension.search.candidate import DivisorCandidate, fitted
from ropewalk.extension.search.evolve import evolve
from ropewalk.extension.search.log import SearchLog

S = 4.0
PAIRS = 8
IDEAL = (1.0, 1.0, 1.3, 1.8, 2.6, 3.7, 4.4, 4.9)
SEEDS = {"linear": fitted([S] * PAIRS, 1.0, S), "none": fitted([1.0] * PAIRS, 1.1, S)}
IDENTITY = {"search": "made up"}


def score(candidate: DivisorCandidate) -> tuple[float, float]:
    """How near the divisors are to IDEAL; the loss grows with the amplitude."""
    apart = sum((a - b) ** 2 for a, b in zip(candidate.divisors, IDEAL, strict=True))
    return -apart, 2.0 + (candidate.amplitude - 1.0)


def run(folder: Path, tries: int, seconds: float = 0.0) -> list[str]:
    """The lines of the log at the end of the search."""

    def slowly(candidate: DivisorCandidate) -> tuple[float, float]:
        time.sleep(seconds)
        return score(candidate)

    with SearchLog(folder, IDENTITY) as log:
        evolve(log, SEEDS, slowly, S, seed=3, most_loss=2.05, tries=tries)
    return (folder / "search.jsonl").read_text().splitlines()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
