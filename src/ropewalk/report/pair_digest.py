"""The telling rows of a long table of rotary pairs."""

from __future__ import annotations

import math

from ropewalk.findings.result import RotaryAudit
from ropewalk.rope.diagnostics import PairRow

ENOUGH = 8
"""Rows to show at least, where a table has that many: evenly spread pairs fill up."""


def digest(part: RotaryAudit) -> list[tuple[PairRow, str]]:
    """Rows with the reason each is shown: ends, ends of the ramp, critical pair, first new one.

    The ramp's ends are the last pair with the first pair's divisor and the first pair with the
    last one's. Of the critical pair its neighbours are shown too.
    """
    rows = part.pairs
    notes: dict[int, str] = {0: "fastest", len(rows) - 1: "slowest"}

    def add(index: int, note: str) -> None:
        if 0 <= index < len(rows) and not notes.get(index):
            notes[index] = note

    low, high = _ramp(rows)
    if low is not None and high is not None:
        add(low, "ramp begins")
        add(high, "ramp ends")
    first_new = next((row.index for row in rows if row.unseen), None)
    if first_new is not None:
        add(first_new, "first new")
    if part.critical_dimension is not None:
        critical = part.critical_dimension // 2
        add(critical, "critical")
        add(critical - 1, "")
        add(critical + 1, "")
    for sixteenths in (8, 4, 12, 2, 6, 10, 14):
        if len(notes) >= ENOUGH:
            break
        add(len(rows) * sixteenths // 16, "")
    return [(rows[index], notes[index]) for index in sorted(notes)]


def _ramp(rows: tuple[PairRow, ...]) -> tuple[int | None, int | None]:
    """Where the divisor leaves its first value and reaches its last; None where it is flat."""
    first, last = rows[0].divisor, rows[-1].divisor
    if math.isclose(first, last, rel_tol=1e-9):
        return None, None
    leaves = max(r.index for r in rows if math.isclose(r.divisor, first, rel_tol=1e-9))
    reaches = min(r.index for r in rows if math.isclose(r.divisor, last, rel_tol=1e-9))
    return (leaves, reaches) if leaves < reaches else (None, None)
