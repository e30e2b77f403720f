"""For how long a context to make a schedule: each closed form, made for the target and for longer.

Untrained schedules read badly at the end of the context that they were made for. How much longer
to make them is seen by prompts with a gap in their positions (`ropewalk.extend.skip`), about a
thousand tokens each, so that whole documents are read once a method and not once a headroom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ropewalk.extend.methods import CLOSED_FORMS, HEADROOMS, Stretch
from ropewalk.extend.score import SHIPPED, Bench, Candidate, stretched
from ropewalk.extend.skip import why_not

TRIALS = 3
"""Prompts with gaps by which headrooms are compared."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A schedule over gaps: mean log-probability (nats), and what short text costs, as a share."""

    stretch: Stretch
    gaps: float
    change: float


@dataclass(frozen=True, slots=True)
class Headrooms:
    """Every method with every headroom, and of each method the one to be measured.

    `reason` says why nothing was tried, "" where it was.
    """

    tried: tuple[Tried, ...]
    chosen: tuple[Stretch, ...]
    reason: str = ""


def headrooms(
    bench: Bench, target: int, length: int, tolerance: float, tell: Callable[[str], None]
) -> Headrooms:
    """Of each closed form for `target` tokens, the headroom with which `length` is read best.

    Best is the highest score over gaps among those that cost short text at most `tolerance`; where
    all cost more, the cheapest. A model of which gaps say nothing is measured without headroom.
    """
    reason = why_not(bench.model, bench.spec)
    if reason is not None:
        return Headrooms((), tuple(map(Stretch, CLOSED_FORMS)), reason)
    before = bench.short_loss(Candidate(SHIPPED, bench.spec))
    tried = []
    for method in CLOSED_FORMS:
        tell(f"prompts with a gap: {method.name}, made for the length and for longer ones")
        for headroom in HEADROOMS:
            candidate = stretched(bench.spec, target, Stretch(method, headroom))
            change = bench.short_loss(candidate) / before - 1.0
            gaps = bench.gaps(candidate, length, TRIALS)
            tried.append(Tried(Stretch(method, headroom), gaps, change))
    return Headrooms(tuple(tried), tuple(_best(tried, m.name, tolerance) for m in CLOSED_FORMS))


def _best(tried: Sequence[Tried], name: str, tolerance: float) -> Stretch:
    own = [each for each in tried if each.stretch.method.name == name]
    intact = [each for each in own if each.change <= tolerance]
    if not intact:
        return min(own, key=lambda each: each.change).stretch
    return max(intact, key=lambda each: -math.inf if math.isnan(each.gaps) else each.gaps).stretch
