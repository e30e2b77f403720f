"""Lines that the sections of a report on a table are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ropewalk.report.layout import Piece, Prose, fit
from ropewalk.report.text import visible

if TYPE_CHECKING:
    from ropewalk.tables.health.scan import Ranked

WIDTH = 100
LABEL = 28
"""Columns of a token."""


def section(name: str, definition: str) -> Iterator[Piece]:
    """A section's name, and under it what its figures are and after whom."""
    yield ""
    yield name.upper()
    yield from wrapped(definition)


def wrapped(text: str, indent: str = "  ", hang: str = "") -> Iterator[Piece]:
    """Text that is broken where a line ends."""
    yield Prose(text, indent, indent + hang)


def ranked_line(ranked: Ranked, unit: str = "") -> Piece:
    """A row with its number, its token, its kind."""
    head = f"    {ranked.score:>10.4f}{unit}  "
    return Prose(f"{label(ranked.label)} {ranked.row:>8}  {ranked.kind}", head, " " * len(head))


def label(text: str) -> str:
    """A token in its column."""
    return fit(visible(text), LABEL)


def quantile_line(name: str, quantiles: Iterable[tuple[float, float]]) -> str:
    """Values at shares, in one line."""
    cells = "  ".join(f"{share:.0%} {value:.4g}" for share, value in quantiles)
    return f"  {name:<10} {cells}"
