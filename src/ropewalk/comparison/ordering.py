"""The published ordering of the encodings, tested on what was measured here, by a stated rule.

What is compared is degradation: the sliding loss at four times the trained length over that at
the trained length, on the same tokens. Sliding, because with non-overlapping windows a loss
falls with the window for reasons that have nothing to do with distant text. In the published
table (2108.12409, table 2: perplexities at 512 and 2,512 tokens, trained at 512) the ratio of
losses is 1.63 for sinusoids, 1.15 for RoPE, 1.01 for T5 and 0.98 for ALiBi; HARD and FLAT part
them. Over several seeds a bound of a 95 % interval of the mean has to pass the threshold, with
one seed the value itself. Whatever does not pass is not reproduced.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.comparison.figures import DecoderFigures, WindowReading
from ropewalk.comparison.presets import FAR
from ropewalk.short import short

HARD = 1.25
"""A loss that grows by a quarter or more degrades hard."""
FLAT = 1.02
"""One that grows by no more than a fiftieth stays flat."""
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's two-sided 95 % quantiles for 1 to 10 degrees of freedom; beyond, the last one."""


@short
@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `count` seeds with its 95 % interval; without width for one seed."""

    mean: float
    low: float
    high: float
    count: int


@short
@dataclass(frozen=True, slots=True)
class OrderFinding:
    """A published statement, whether it was reproduced here, and the figures it rests on.

    `reproduced` is None where what it needs was not measured.
    """

    statement: str
    reproduced: bool | None
    reason: str

    @property
    def verdict(self) -> str:
        """The answer in words."""
        if self.reproduced is None:
            return "not measured"
        return "reproduced" if self.reproduced else "not reproduced"


def interval(values: Sequence[float]) -> Interval:
    """Mean and Student's 95 % interval; the values are one a seed, and at least one."""
    mean, count = statistics.fmean(values), len(values)
    if count == 1:
        return Interval(mean, mean, mean, 1)
    quantile = _T95[min(count - 1, len(_T95)) - 1]
    spread = quantile * statistics.stdev(values) / math.sqrt(count)
    return Interval(mean, mean - spread, mean + spread, count)


def degradation(reading: WindowReading, trained: int, kind: str = "sliding") -> float | None:
    """Loss at FAR times the trained length over that at it; None where one was refused."""
    near, far = reading.loss(kind, trained), reading.loss(kind, FAR * trained)
    return None if near is None or far is None else far.mean / near.mean


def findings(figures: Sequence[DecoderFigures], trained: int) -> tuple[OrderFinding, ...]:
    """The five statements, each tested on the seeds that have what it needs."""
    return (
        _hard(figures, trained),
        _refuses(figures, trained),
        _less(figures, trained),
        _extendable(figures, trained),
        _flat(figures, trained),
    )


def _ratios(figures: Sequence[DecoderFigures], variant: str, trained: int) -> dict[int, float]:
    """The degradation of a variant by seed."""
    found = {
        each.seed: degradation(each.reading, trained) for each in figures if each.variant == variant
    }
    return {seed: value for seed, value in found.items() if value is not None}


def _hard(figures: Sequence[DecoderFigures], trained: int) -> OrderFinding:
    statement = "Sinusoids degrade hard beyond the trained length"
    ratios = _ratios(figures, "sinusoidal", trained)
    if not ratios:
        return _unmeasured(statement)
    found = interval(list(ratios.values()))
    return OrderFinding(
        statement,
        found.low >= HARD,
        f"their loss at {FAR} x is {words(found)} times that at 1 x; hard is {HARD:g} or more",
    )


def _refuses(figures: Sequence[DecoderFigures], trained: int) -> OrderFinding:
    statement = "A learned table refuses what lies beyond it"
    found = [each.reading for each in figures if each.variant == "learned"]
    if not found:
        return _unmeasured(statement)
    refused = [
        each for each in found if each.refusal and all(x.window <= trained for x in each.losses)
    ]
    said = f"; it says: {refused[0].refusal}" if refused else ""
    return OrderFinding(
        statement, len(refused) == len(found), f"{len(refused)} of {len(found)}{said}"
    )


def _less(figures: Sequence[DecoderFigures], trained: int) -> OrderFinding:
    statement = "RoPE degrades, and less than sinusoids"
    rope = _ratios(figures, "rope", trained)
    other = _ratios(figures, "sinusoidal", trained)
    both = sorted(rope.keys() & other.keys())
    if not both:
        return _unmeasured(statement)
    own = interval([rope[seed] for seed in both])
    more = interval([other[seed] - rope[seed] for seed in both])
    return OrderFinding(
        statement,
        own.low > FLAT and more.low > 0.0,
        f"RoPE's loss at {FAR} x is {words(own)} times that at 1 x (flat is up to {FLAT:g}), "
        f"sinusoids' ratio is larger by {words(more)}",
    )


def _extendable(figures: Sequence[DecoderFigures], trained: int) -> OrderFinding:
    statement = "RoPE can be extended by another schedule, without training"
    rope = [each for each in figures if each.variant == "rope" and each.schedules]
    best: tuple[float, str, Interval] | None = None
    for name in rope[0].schedules if rope else ():
        gains = []
        for each in rope:
            plain = each.reading.loss("sliding", FAR * trained)
            scaled = each.schedules[name].loss("sliding", FAR * trained)
            if plain is not None and scaled is not None:
                gains.append(plain.mean - scaled.mean)
        if gains and (best is None or statistics.fmean(gains) > best[0]):
            best = (statistics.fmean(gains), name, interval(gains))
    if best is None:
        return _unmeasured(statement)
    _, name, gain = best
    return OrderFinding(
        statement,
        gain.low > 0.0,
        f"{name}, the best of those tried, takes {words(gain)} nats off its loss at {FAR} x",
    )


def _flat(figures: Sequence[DecoderFigures], trained: int) -> OrderFinding:
    statement = "ALiBi stays flat"
    ratios = _ratios(figures, "alibi", trained)
    if not ratios:
        return _unmeasured(statement)
    found = interval(list(ratios.values()))
    return OrderFinding(
        statement,
        found.high <= FLAT,
        f"its loss at {FAR} x is {words(found)} times that at 1 x; flat is up to {FLAT:g}",
    )


def words(found: Interval) -> str:
    """`1.312 (95 % 1.250 to 1.374, 3 seeds)`, or `1.312 (one seed)`."""
    if found.count == 1:
        return f"{found.mean:.3f} (one seed)"
    return f"{found.mean:.3f} (95 % {found.low:.3f} to {found.high:.3f}, {found.count} seeds)"


def _unmeasured(statement: str) -> OrderFinding:
    return OrderFinding(statement, None, "the encodings that it speaks of were not trained")
