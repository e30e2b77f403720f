"""A schedule to be searched: a divisor per pair that never falls, and an amplitude.

The space is LongRoPE's (2402.13753, section 3.2): divisors from 1 to 1.25 s in steps of 0.01, those
of slower pairs at least as large; s is that of the longest context a closed form is made for. The
amplitude on cos and sin is searched with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ropewalk.short import short

STEP = 0.01
REACH = 1.25
"""The largest divisor is this times s."""
LOUDEST = 1.5
"""The largest amplitude; YaRN's is 1.42 at s = 64."""


@short
@dataclass(frozen=True, slots=True)
class DivisorCandidate:
    """Divisors, fastest pair first, and what multiplies cos and sin."""

    divisors: tuple[float, ...]
    amplitude: float = 1.0


def fitted(divisors: Sequence[float], amplitude: float, s: float) -> DivisorCandidate:
    """The nearest candidate of the space: within its bounds, on its steps, and never falling."""
    found: list[float] = []
    for divisor in divisors:
        held = min(max(divisor, 1.0), REACH * s)
        rounded = min(round(held / STEP) * STEP, REACH * s)
        found.append(round(max([rounded, *found[-1:]]), 6))
    return DivisorCandidate(tuple(found), round(min(max(amplitude, 1.0), LOUDEST), 4))


def crossed(
    one: DivisorCandidate, other: DivisorCandidate, s: float, random: Random
) -> DivisorCandidate:
    """The fast pairs of one and the slow pairs of the other, and the amplitude of either."""
    cut = random.randrange(1, max(2, len(one.divisors)))
    joined = (*one.divisors[:cut], *other.divisors[cut:])
    return fitted(joined, random.choice((one, other)).amplitude, s)


def mutated(candidate: DivisorCandidate, s: float, random: Random) -> DivisorCandidate:
    """One to three neighbouring runs of pairs, each raised or lowered by the same amount.

    An amount is up to a third of the space's height; every fourth child has another amplitude.
    """
    divisors = list(candidate.divisors)
    for _ in range(random.randint(1, 3)):
        first = random.randrange(len(divisors))
        width = random.randint(1, max(1, len(divisors) // 4))
        amount = random.gauss(0.0, max(2 * STEP, (REACH * s - 1.0) / 6))
        # Lowering a run must not be undone by a higher one before it.
        for index in range(first, min(first + width, len(divisors))):
            divisors[index] += amount
        if amount < 0:
            floor = max(1.0, divisors[first])
            divisors[:first] = [min(each, floor) for each in divisors[:first]]
    amplitude = candidate.amplitude
    if random.random() < 0.25:
        amplitude += random.gauss(0.0, 0.03)
    return fitted(divisors, amplitude, s)
