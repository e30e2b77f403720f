"""Paired, interleaved timing, and the rows that come of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Runs = dict[str, Callable[[], object]]
"""What is timed, by name."""


@dataclass
class Times:
    """Seconds of every round by name: in each round all ran, one after the other."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        """The median seconds of one."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, to: str) -> float:
        """The median over the rounds of how long `name` took for each second of `to`."""
        pairs = zip(self.seconds[name], self.seconds[to], strict=True)
        return statistics.median(a / b for a, b in pairs)


def measure(runs: Runs, rounds: int, calls: int = 1) -> Times:
    """Time every run once a round, `calls` calls together; two unmeasured rounds before."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for number in range(-2, rounds):
        # Whoever runs after the heaviest finds the coldest cache: let everyone take that place.
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            run = runs[name]
            start = time.perf_counter()
            for _ in range(calls):
                run()
            if number >= 0:
                times[name].append((time.perf_counter() - start) / calls)
    return Times(times)


@dataclass(frozen=True, slots=True)
class Reach:
    """One comparison: a measured ratio, and what it is to be at least or at most."""

    what: str
    value: float
    bound: float
    at_least: bool

    @property
    def holds(self) -> bool:
        """Whether the ratio is where it is to be."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{self.what} {self.value:.2f} ({sign} {self.bound:g})"


@dataclass(frozen=True, slots=True)
class Row:
    """One work: medians in seconds by name, and what was to be reached.

    `limit` says what a row that falls short is held back by.
    """

    work: str
    seconds: dict[str, float]
    reaches: tuple[Reach, ...] = ()
    limit: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool | None:
        """Whether all was reached, None where nothing was to be."""
        return all(reach.holds for reach in self.reaches) if self.reaches else None


def row(
    work: str, times: Times, *reaches: Reach, limit: str = "", notes: tuple[str, ...] = ()
) -> Row:
    """A row of all medians of `times`."""
    return Row(work, {name: times.median(name) for name in times.seconds}, reaches, limit, notes)
