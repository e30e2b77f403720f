"""For how long a context to make a schedule: each closed form, made for the target and for longer.

Untrained schedules read badly at the end of the context that they were made for. How much longer
to make them is seen by prompts with a gap in their positions (`ropewalk.extension.skip`), about a
thousand tokens each, so that whole documents are read once a method and not once a headroom.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ropewalk.extension.methods import CLOSED_FORMS, HEADROOMS, NAMES, Method, Stretch, Stretches
from ropewalk.extension.score import SHIPPED, Bench, Candidate, stretched
from ropewalk.extension.skip import why_not
from ropewalk.short import short

SHARE = 0.25
"""Of the time up to a deadline: the rest is for whole documents."""


@short
@dataclass(frozen=True, slots=True)
class TriedHeadroom:
    """A schedule over gaps: mean log-probability (nats), and what short text costs, as a share."""

    stretch: Stretch
    gaps: float
    change: float


@short
@dataclass(frozen=True, slots=True)
class Headrooms:
    """Every method with every headroom, and of each method the one to be measured.

    `reason` says why nothing was tried, "" where it was.
    """

    tried: tuple[TriedHeadroom, ...]
    chosen: tuple[Stretch, ...]
    reason: str = ""


def headrooms(
    bench: Bench,
    stretches: Stretches,
    length: int,
    tolerance: float,
    deadline: float | None,
    tell: Callable[[str], None],
    methods: Sequence[Method] = CLOSED_FORMS,
) -> Headrooms:
    """Of each of `methods`, the headroom with which `length` is read best.

    Best is the highest score over gaps among those that cost short text at most `tolerance`; where
    all cost more, the cheapest. A model of which gaps say nothing is measured without headroom. Up
    to a deadline (by `time.monotonic`) no headroom is begun that SHARE of the time has not room
    for; none at all is tried for every method in any case.
    """
    reason = why_not(bench.model, bench.spec)
    if reason is not None:
        return Headrooms((), tuple(map(Stretch, methods)), reason)
    begun = time.monotonic()
    ends = math.inf if deadline is None else begun + SHARE * (deadline - begun)
    before = bench.short_loss(Candidate(SHIPPED, bench.spec))
    tried: list[TriedHeadroom] = []
    for headroom in HEADROOMS:
        started = time.monotonic()
        tell(f"prompts with a gap: every method, made for {headroom:g} times the length")
        for method in methods:
            stretch = Stretch(method, headroom)
            candidate = stretched(stretches, stretch)
            change = bench.short_loss(candidate) / before - 1.0
            tried.append(TriedHeadroom(stretch, bench.gaps(candidate, length), change))
        now = time.monotonic()
        if now + (now - started) > ends:
            break
    tried.sort(key=lambda each: NAMES.index(each.stretch.method.name))
    return Headrooms(tuple(tried), tuple(_best(tried, each.name, tolerance) for each in methods))


def _best(tried: Sequence[TriedHeadroom], name: str, tolerance: float) -> Stretch:
    own = [each for each in tried if each.stretch.method.name == name]
    intact = [each for each in own if each.change <= tolerance]
    if not intact:
        return min(own, key=lambda each: each.change).stretch
    return max(intact, key=lambda each: -math.inf if math.isnan(each.gaps) else each.gaps).stretch
