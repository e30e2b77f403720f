"""The search itself: parents, children, and whom to keep. No model in here.

Every child depends on the seed, its number and the tries before it, and on nothing else: a search
that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random

from ropewalk.extension.search.candidate import DivisorCandidate, crossed, mutated
from ropewalk.extension.search.log import SearchLog, Tried

PARENTS = 12
"""The best so far, from which children are made."""

Scorer = Callable[[DivisorCandidate], tuple[float, float]]
"""Score (nats, higher is better) and loss of short text (nats) of a candidate."""


def evolve(
    log: SearchLog,
    seeds: Mapping[str, DivisorCandidate],
    score: Scorer,
    s: float,
    *,
    seed: int,
    most_loss: float,
    tries: int | None = None,
    deadline: float | None = None,
    tell: Callable[[Tried, int], None] = lambda _tried, _number: None,
) -> Tried:
    """Try the seeds, then children, up to `tries` tries in all or the deadline; the best one.

    One of the two bounds must be given. A try whose short text costs more than `most_loss` nats
    ranks behind all that do not. `deadline` is by `time.monotonic`; the seeds are tried whatever
    it says, because without them there is nothing to better. Raises ValueError without a bound.
    """
    if tries is None and deadline is None:
        raise ValueError("a search needs an end: a number of tries, or a deadline")
    known = {each.candidate for each in log.tried}
    for name, candidate in seeds.items():
        if candidate not in known:
            _try(log, candidate, name, score, tell)
            known.add(candidate)
    longest = 0.0
    while tries is None or len(log.tried) < tries:
        begun = time.monotonic()
        if deadline is not None and begun + longest >= deadline:
            break
        child = _child(log.tried, known, s, seed, most_loss)
        if child is None:
            break
        _try(log, child, "child", score, tell)
        known.add(child)
        longest = max(longest, time.monotonic() - begun)
    return best(log.tried, most_loss)


def best(tried: list[Tried], most_loss: float) -> Tried:
    """The first in rank. Raises ValueError where nothing was tried."""
    return max(tried, key=lambda each: _rank(each, most_loss))


def _rank(tried: Tried, most_loss: float) -> tuple[bool, float]:
    return tried.loss <= most_loss, tried.score


def _try(
    log: SearchLog,
    candidate: DivisorCandidate,
    source: str,
    score: Scorer,
    tell: Callable[[Tried, int], None],
) -> None:
    value, loss = score(candidate)
    tried = Tried(candidate, value, loss, source)
    log.add(tried)
    tell(tried, len(log.tried))


def _child(
    tried: list[Tried], known: set[DivisorCandidate], s: float, seed: int, most_loss: float
) -> DivisorCandidate | None:
    """A candidate that was not tried yet; None where none could be made, in a space of a few."""
    parents = sorted(tried, key=lambda each: _rank(each, most_loss), reverse=True)[:PARENTS]
    random = Random(f"{seed}/{len(tried)}")
    for _ in range(1000):
        # The better of two drawn at random.
        first, second = (
            min(random.randrange(len(parents)), random.randrange(len(parents))) for _ in range(2)
        )
        one, other = parents[first].candidate, parents[second].candidate
        child = crossed(one, other, s, random) if random.random() < 0.5 else one
        child = mutated(child, s, random)
        if child not in known:
            return child
    return None
