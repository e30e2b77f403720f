"""A word's meanings, layer by layer, as one HTML page: an inline SVG plot, and its numbers.

The page needs no network and runs no script. Text of sentences and tokenizers goes through the
template's escaping, with control characters made visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.report.page import asset, environment, policy_hash, trusted
from ropewalk.report.table_context import GROUPED, PAIRED, Row, notes, rows
from ropewalk.short import short

if TYPE_CHECKING:
    from ropewalk.explain.meaning import Meaning

LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 14.0, 34.0
HEIGHT = 260.0
"""Of the plot in SVG pixels: margins, and the height of the cosines' scale."""


@short
@dataclass(frozen=True, slots=True)
class Series:
    """A line of the plot: its CSS class, its path, and its points as x, y and tooltip."""

    kind: str
    path: str
    points: tuple[tuple[float, float, str], ...]


@short
@dataclass(frozen=True, slots=True)
class Panel:
    """One plot: layers across, cosine up; every number is in SVG pixels."""

    title: str
    width: float
    height: float
    series: tuple[Series, ...]
    ticks: tuple[tuple[float, str], ...]
    rules: tuple[tuple[float, str], ...]


def context_html(meaning: Meaning) -> str:
    """The page. Raises MissingPartError without jinja2."""
    style = asset("table_context.css")
    paired = meaning.senses is None
    table = rows(meaning)
    return (
        environment()
        .get_template("table_context.html.j2")
        .render(
            meaning=meaning,
            paired=paired,
            style=trusted(style),
            style_hash=policy_hash(style),
            panels=_panels(table, paired=paired),
            columns=PAIRED if paired else GROUPED,
            rows=table,
            notes=tuple(notes(meaning)),
        )
    )


def _panels(table: tuple[Row, ...], *, paired: bool) -> tuple[Panel, ...]:
    """The cosines as they are, and less the mean."""
    lines: list[tuple[str, Callable[[Row], float | None]]] = [
        ("across", lambda row: row.across),
        ("others", lambda row: row.others),
    ]
    centred: list[tuple[str, Callable[[Row], float | None]]] = [
        ("across", lambda row: row.centred_across)
    ]
    if not paired:
        lines.insert(0, ("within", lambda row: row.within))
        centred.insert(0, ("within", lambda row: row.centred_within))
    return (
        _panel("Cosine, as it is", table, lines),
        _panel("Cosine, less the mean of the other tokens", table, centred),
    )


def _panel(
    title: str, table: tuple[Row, ...], lines: list[tuple[str, Callable[[Row], float | None]]]
) -> Panel:
    step = max(14.0, min(60.0, 560.0 / max(len(table) - 1, 1)))
    values = [value for _, of in lines for row in table if (value := of(row)) is not None]
    low = min(0.0, *values) if values else 0.0
    low = -1.0 if low < -0.5 else -0.5 if low < 0.0 else 0.0

    def up(value: float) -> float:
        return round(TOP + HEIGHT * (1.0 - value) / (1.0 - low), 1)

    series = []
    for kind, of in lines:
        points = tuple(
            (round(LEFT + step * i, 1), up(value), f"{row.name}: {kind} {value:.3f}")
            for i, row in enumerate(table)
            if (value := of(row)) is not None
        )
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y, _ in points) if points else ""
        series.append(Series(kind, path, points))
    every = max(1, round(44.0 / step))
    labelled = [*range(0, len(table) - 1, every), len(table) - 1]
    return Panel(
        title=title,
        width=LEFT + step * (len(table) - 1) + RIGHT + 24,
        height=TOP + HEIGHT + BOTTOM,
        series=tuple(series),
        ticks=tuple((LEFT + step * i, _short(table[i].name)) for i in labelled),
        rules=tuple((up(v), f"{v:.1f}") for v in (-1.0, -0.5, 0.0, 0.5, 1.0) if v >= low),
    )


def _short(name: str) -> str:
    return {"final norm": "norm", "layer 0": "0"}.get(name, name.removeprefix("block "))
