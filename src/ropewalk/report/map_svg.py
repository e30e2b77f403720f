"""Where everything of a page's heat map stands: numbers for the template, in SVG pixels.

The map, the bands under it and the chart of its whiskers share their columns, so that one look
goes straight down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ropewalk.report import scale
from ropewalk.report.document import Band, HeatMap, MapField, Whisker
from ropewalk.short import short

LABEL = 66.0
"""Width of the names of rows, left of the first column."""
GAP = 3.0
"""Space between two fields."""
TOP = 46.0
"""Height above the first row: caption of the limit, then the names of columns."""
BAND = 18.0
"""Height of a band."""
CHART = 132.0
"""Height of the chart's scale, 0 to 100 %."""
_WHOLE = 560


@short
@dataclass(frozen=True, slots=True)
class FieldBox:
    """One field: its corner, place, colours, and what it holds."""

    x: float
    y: float
    row: int
    column: int
    fill: str
    ink: str
    field: MapField

    @property
    def text(self) -> str:
        """What stands in it."""
        return self.field.word or f"{self.field.text}{self.field.flag}"


@short
@dataclass(frozen=True, slots=True)
class BandBox:
    """A band: the top of its row, its length, and what it stands for."""

    y: float
    width: float
    band: Band


@short
@dataclass(frozen=True, slots=True)
class Stroke:
    """An interval in the chart: x of its line, y of value, low and high, and its tip."""

    x: float
    value: float
    low: float
    high: float
    tip: str


@short
@dataclass(frozen=True, slots=True)
class Figure:
    """The whole drawing; every number is in SVG pixels."""

    width: float
    height: float
    box_width: float
    box_height: float
    columns: tuple[tuple[float, str], ...]
    """Middle and name of each column."""
    rows: tuple[tuple[float, str], ...]
    """Middle and name of each row."""
    fields: tuple[FieldBox, ...]
    bands: tuple[BandBox, ...]
    limit: float | None
    limit_anchor: str
    bottom: float
    """Where the limit's line ends."""
    chart_top: float
    rules: tuple[tuple[float, str], ...]
    threshold: float | None
    strokes: tuple[tuple[str, tuple[Stroke, ...]], ...]
    """The series of the chart by their CSS class; the first lies on top and is last here."""
    verdicts: tuple[tuple[float, str], ...]


def figure(found: HeatMap) -> Figure:
    """Where everything of a map stands."""
    columns, rows = len(found.columns), len(found.rows)
    wide = min(116.0, max(60.0, _WHOLE // columns))
    high = 36.0 if rows <= 7 else 29.0
    map_bottom = TOP + high * rows
    chart_top = map_bottom + BAND * (len(found.bands) + 1) + 22
    bottom = chart_top + CHART if found.whiskers else map_bottom
    width = LABEL + wide * columns + 8

    def edge(covered: int) -> float:
        return wide * covered - GAP

    def height(value: float) -> float:
        return round(chart_top + CHART * (1 - value), 1)

    limit = None if found.line is None else LABEL + edge(found.line.after) + GAP / 2
    middles = [LABEL + wide * at + (wide - GAP) / 2 for at in range(columns)]
    return Figure(
        width=width,
        height=chart_top + CHART + 44 if found.whiskers else chart_top - 22,
        box_width=wide - GAP,
        box_height=high - GAP,
        columns=tuple(zip(middles, found.columns, strict=True)),
        rows=tuple(
            (TOP + high * at + (high - GAP) / 2, name) for at, name in enumerate(found.rows)
        ),
        fields=tuple(_fields(found, wide, high)),
        bands=tuple(
            BandBox(map_bottom + 8 + BAND * at, edge(band.covered), band)
            for at, band in enumerate(found.bands)
        ),
        limit=limit,
        limit_anchor="end" if limit is not None and limit > width / 2 else "start",
        bottom=bottom,
        chart_top=chart_top,
        rules=tuple((height(value), scale.percent(value)) for value in (0.0, 0.5, 1.0)),
        threshold=None if found.threshold is None else height(found.threshold[0]),
        strokes=tuple(
            (f"s{number}", tuple(_stroke(each, middles, height, number) for each in series))
            for number, series in reversed(list(enumerate(found.whiskers.values())))
        ),
        verdicts=tuple(zip(middles, found.verdicts, strict=False)),
    )


def _fields(found: HeatMap, wide: float, high: float) -> list[FieldBox]:
    boxes = []
    for row, fields in enumerate(found.fields):
        for column, each in enumerate(fields):
            fill = "" if each.share is None else scale.colour(each.share)
            place = LABEL + wide * column, TOP + high * row
            boxes.append(FieldBox(*place, row, column, fill, scale.ink(fill) if fill else "", each))
    return boxes


def _stroke(
    each: Whisker, middles: list[float], height: Callable[[float], float], number: int
) -> Stroke:
    value, low, high = (height(value) for value in (each.value, each.low, each.high))
    return Stroke(middles[each.column] + (9 if number else -3), value, low, high, each.tip)
