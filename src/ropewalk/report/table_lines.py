"""Lines that the sections of a report on a table are made of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ropewalk.report.text import visible

if TYPE_CHECKING:
    from ropewalk.tables.health.scan import Ranked

WIDTH = 100
LABEL = 28
"""Columns of a token."""


def section(name: str, definition: str) -> Iterator[str]:
    """A section's name, and under it what its figures are and after whom."""
    yield ""
    yield name.upper()
    yield from wrapped(definition)


def wrapped(text: str, indent: str = "  ", hang: str = "") -> Iterator[str]:
    """Text in lines of WIDTH."""
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + hang, break_on_hyphens=False
    )


def ranked_line(ranked: Ranked, unit: str = "") -> str:
    """A row with its number, its token, its kind."""
    return f"    {ranked.score:>10.4f}{unit}  {label(ranked.label)} {ranked.row:>8}  {ranked.kind}"


def label(text: str) -> str:
    """A token in its column."""
    shown = visible(text)
    if len(shown) > LABEL:
        shown = shown[: LABEL - 3] + "..."
    return f"{shown:<{LABEL}}"


def quantile_line(name: str, quantiles: Iterable[tuple[float, float]]) -> str:
    """Values at shares, in one line."""
    cells = "  ".join(f"{share:.0%} {value:.4g}" for share, value in quantiles)
    return f"  {name:<10} {cells}"
