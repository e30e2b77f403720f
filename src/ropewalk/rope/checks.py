"""Refusals of values that no rotary schedule can have; every message has field, value, remedy.

Used by the values of `ropewalk.rope.schedules` and `ropewalk.rope.spec` when they are made, so
that a value that exists can be computed with. Each function raises ScheduleError.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

from ropewalk.errors import ScheduleError

MOST = 1e15
"""Bases, factors and multipliers up to here; the largest base seen is below 1e12."""

LEAST_DIVISOR, MOST_DIVISOR = 1e-15, 3.5e38
"""Divisors of frequencies. llama.cpp's converters write 1e30 for a pair that stands still."""

MOST_LENGTH = 2**53
"""Tokens: beyond it, positions are not whole numbers in double precision."""


MOST_CHANNELS = 10**6
"""Channels of a head; the readers' bound for counts."""


def number(field: str, value: object, *, least: float, remedy: str, above: bool = False) -> None:
    """Refuse all but a finite number from `least` (`above`: greater than it) to 1e15."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not least <= value <= MOST or (above and value == least):  # type: ignore[operator]
        allowed = f"above {least:g}" if above else f"of at least {least:g}"
        raise ScheduleError(
            f"{field} is {_shown(value)}; it must be a number {allowed} and at most {MOST:g}: "
            f"{remedy}"
        )


def stretch(field: str, value: object) -> None:
    """Refuse a factor that would squeeze the context instead of stretching it."""
    number(field, value, least=1.0, remedy="a factor is the new length over the trained one")


def length(field: str, value: object, *, least: int = 1, remedy: str) -> None:
    """Refuse all but a whole number of tokens; None is a length that is missing."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= value <= MOST_LENGTH:  # type: ignore[operator]
        given = "missing" if value is None else _shown(value)
        raise ScheduleError(
            f"{field} is {given}; it must be a whole number of tokens from {least} to 2^53: "
            f"{remedy}"
        )


def divisors(field: str, values: object) -> None:
    """Refuse all but a non-empty tuple of divisors of frequencies."""
    if not isinstance(values, tuple) or not values:
        raise ScheduleError(
            f"{field} is {_shown(values)}; it must be a tuple of numbers, one a rotary pair"
        )
    for index, value in enumerate(values):
        good = isinstance(value, Real) and not isinstance(value, bool)
        if not good or not LEAST_DIVISOR <= value <= MOST_DIVISOR:
            raise ScheduleError(
                f"{field} holds the divisor {_shown(value)} for pair {index}; divisors are "
                f"numbers from {LEAST_DIVISOR:g} to {MOST_DIVISOR:g}: check the list"
            )


def one_a_pair(field: str, values: Sequence[float], pairs: int) -> None:
    """Refuse a list that has not exactly one divisor for each rotary pair."""
    if len(values) != pairs:
        raise ScheduleError(
            f"{field} holds {len(values)} divisors for {pairs} rotary pairs; there must be one a "
            "pair: check the rotary dimension (partial_rotary_factor, head_dim)"
        )


def channels(head_dim: object, rotary_dim: object) -> None:
    """Refuse dimensions of which no even share rotates; counts of channels."""
    whole = all(isinstance(d, Integral) and not isinstance(d, bool) for d in (head_dim, rotary_dim))
    if whole and head_dim > MOST_CHANNELS:  # type: ignore[operator]
        raise ScheduleError(
            f"head_dim is {_shown(head_dim)}; a head has at most {MOST_CHANNELS} channels"
        )
    if not whole or not 2 <= rotary_dim <= head_dim or rotary_dim % 2:  # type: ignore[operator]
        raise ScheduleError(
            f"rotary_dim is {_shown(rotary_dim)} with head_dim {_shown(head_dim)}; it must be "
            "even, at least 2 and at most head_dim: check head_dim and partial_rotary_factor"
        )


def one_of(field: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a word that is none of those allowed."""
    if value not in allowed:
        words = " or ".join(repr(word) for word in allowed)
        raise ScheduleError(f"{field} is {_shown(value)}; it must be {words}")


def sections(values: object, pairs: int) -> None:
    """Refuse a split over position axes that leaves pairs out or counts some twice."""
    counts = values if isinstance(values, tuple) else (values,)
    whole = all(isinstance(c, int) and not isinstance(c, bool) and c >= 0 for c in counts)
    if not whole or (counts and sum(counts) != pairs):
        total = f", which sum to {sum(counts)}" if whole else ""
        raise ScheduleError(
            f"sections are {_shown(values)}{total}; they must be whole numbers that sum to the "
            f"{pairs} rotary pairs: make them sum to half of rotary_dim, or leave them empty"
        )


def _shown(value: object) -> str:
    """A value in a message, cut to a readable length."""
    if isinstance(value, int) and abs(value) > 10**30:
        return "an integer of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
