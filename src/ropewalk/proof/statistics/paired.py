"""Tests and intervals of paired answers: the same question asked in two ways.

Exact where it can be: McNemar's test (Q. McNemar, 1947) as the exact binomial test on pairs that
differ, a sign-flip permutation test of a mean (R. A. Fisher, 1935), Student's interval, and
Holm's correction for many tests (S. Holm, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.errors import MissingPartError, UsageError
from ropewalk.short import short

FLIPS = 10_000
"""Random sign flips where there are too many to try them all."""
ALL_FLIPS = 12
"""Up to this many differences all 2^n flips are tried."""


@short
@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The mean of `count` paired differences and Student's 95 % interval.

    `low` and `high` are None for fewer than two differences.
    """

    count: int
    value: float
    low: float | None
    high: float | None


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided p-value for pairs of which one answer is a hit and the other is not.

    With n = only_first + only_second such pairs and no difference, each side has a chance of 1/2:
    p = min(1, 2 P(X <= min)) for X binomial(n, 1/2). 1 without any. Raises UsageError for
    negative counts.
    """
    if only_first < 0 or only_second < 0:
        raise UsageError(f"{min(only_first, only_second)} pairs is impossible: 0 or more can be.")
    number = only_first + only_second
    least = min(only_first, only_second)
    return min(1.0, 2 * float(_special().bdtr(least, number, 0.5))) if number else 1.0


def sign_flip(differences: Sequence[float], seed: int = 0) -> float:
    """The two-sided p-value of a mean of 0: how often random signs give as large a mean.

    Without a difference either sign of each is as likely. All 2^n signs are tried up to n =
    ALL_FLIPS; beyond, FLIPS seeded draws, the one that was seen counted with them. 1 for none.
    Differences that are not independent must be summed over what they share first.
    """
    import numpy as np

    values = np.asarray(differences, dtype=np.float64)
    count = len(values)
    if count == 0:
        return 1.0
    # Sums in another order differ in their last digits; those are ties.
    bar = abs(values.sum()) * (1 - 1e-12) - 1e-12 * float(np.abs(values).max())
    if count <= ALL_FLIPS:
        bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return float(np.mean(np.abs((1 - 2 * bits) @ values) >= bar))
    random = np.random.default_rng(seed)
    reached, left = 0, FLIPS
    while left:
        rows = min(left, max(1, 4_000_000 // count))
        signs = 1 - 2 * random.integers(0, 2, size=(rows, count), dtype=np.int8)
        reached += int(np.count_nonzero(np.abs(signs @ values) >= bar))
        left -= rows
    return (reached + 1) / (FLIPS + 1)


def least_p(units: int) -> float:
    """The smallest p-value that `units` differences can have, in either test: 2 / 2^n, at most 1.

    All of them then point the same way. Of more than ALL_FLIPS not all signs are tried, so that
    sign flips end at 1 / (FLIPS + 1).
    """
    return min(1.0, 2.0 ** (1 - units)) if units <= ALL_FLIPS else 1 / (FLIPS + 1)


def fewest_units(tests: int, significant: float) -> int:
    """The fewest differences of which Holm's smallest of `tests` p-values can be significant."""
    units = 1
    while tests * 2.0 ** (1 - units) >= significant:
        units += 1
    return units


def mean_difference(differences: Sequence[float]) -> MeanDifference:
    """The mean with mean ± t s / sqrt(n), t the 97.5 % point of Student's t with n - 1.

    Raises UsageError without any difference.
    """
    count = len(differences)
    if count == 0:
        raise UsageError("there is no pair to take a mean of; compare runs that share prompts.")
    mean = math.fsum(differences) / count
    if count == 1:
        return MeanDifference(count, mean, None, None)
    variance = math.fsum((each - mean) ** 2 for each in differences) / (count - 1)
    reach = student_point(count - 1) * math.sqrt(variance / count)
    return MeanDifference(count, mean, mean - reach, mean + reach)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given: below 0.05 means significant among all."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return tuple(adjusted)


def student_point(freedom: int, tail: float = 0.025) -> float:
    """The t that Student's t with `freedom` degrees exceeds with probability `tail`."""
    return float(_special().stdtrit(freedom, 1 - tail))


def _special() -> Any:
    try:
        from scipy import special
    except ImportError as error:
        raise MissingPartError(
            "paired answers are compared by scipy, which is not installed: "
            'pip install "ropewalk[prove]"'
        ) from error
    return special
