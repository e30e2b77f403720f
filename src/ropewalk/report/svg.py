"""Where everything of a page's maps and charts stands: numbers for the template, in SVG pixels.

A chart is drawn twice, for a wide screen and for a telephone, so that letters keep their size. A
map, the bands under it and the chart of its whiskers share their columns, so that one look
goes straight down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ropewalk.report import scale
from ropewalk.report.document import Chart, ChartLine, HeatMap, MapBand, MapField, Whisker
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
NAMES = 13.0
"""Between two names, at least, in SVG pixels."""

POINTS = 1500
"""Points of a line at most; more are averaged."""

_KINDS = ("c2", "c0", "c1", "c3", "c4", "c5", "c6", "c7", "c8", "c9")


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
    band: MapBand


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


@short
@dataclass(frozen=True, slots=True)
class Pane:
    """The size of a drawing in SVG pixels; names stand in the margin at the right."""

    kind: str
    width: float
    height: float = 250.0
    left: float = 52.0
    right: float = 146.0
    top: float = 14.0
    bottom: float = 30.0

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Where the lines are: from x to x, from y to y."""
        return self.left, self.width - self.right, self.top, self.height - self.bottom


PANES = (Pane("broad", 620.0), Pane("slim", 348.0, left=46.0, right=138.0))
"""For a wide screen, and for one of about 390 pixels."""


@short
@dataclass(frozen=True, slots=True)
class Curve:
    """One line: its CSS class, a path, points (x, y, tip), and its name with a place."""

    kind: str
    path: str
    points: tuple[tuple[float, float, str], ...]
    name: str
    name_at: tuple[float, float]


@short
@dataclass(frozen=True, slots=True)
class Drawing:
    """Curves over x; `rules` are heights with their labels, `across` places with theirs."""

    pane: Pane
    title: str
    curves: tuple[Curve, ...]
    across: tuple[tuple[float, str], ...]
    rules: tuple[tuple[float, str], ...]
    level: float | None
    mark: tuple[float, str] | None


def drawings(chart: Chart) -> list[Drawing]:
    """The chart in each pane; one without a point is not drawn."""
    if not any(y is not None for line in chart.lines for _, y in line.points):
        return []
    alone = len(chart.lines) == 1
    return [_drawing(chart, replace(pane, right=12.0) if alone else pane) for pane in PANES]


def _drawing(chart: Chart, pane: Pane) -> Drawing:
    lines = [_averaged(line) for line in chart.lines]
    first, last, top, bottom = pane.edges
    low, high = _span(chart, lines)
    xs = [x for line in lines for x, _ in line.points] + [x for x, _ in chart.ticks]
    least, most = min(xs), max(xs)
    most = most if most > least else least + 1.0

    def across(x: float) -> float:
        return round(first + (last - first) * (x - least) / (most - least), 1)

    def height(y: float) -> float:
        share = (min(max(y, low), high) - low) / (high - low)
        return round(top + (bottom - top) * (1.0 - share), 1)

    curves = []
    for number, line in enumerate(lines):
        placed = [(across(x), None if y is None else height(y)) for x, y in line.points]
        if any(y is not None for _, y in placed):
            curves.append(_curve(line, placed, line.kind or _KINDS[number % len(_KINDS)]))
    steps = [low + (high - low) * part / 4 for part in range(5)]
    return Drawing(
        pane=pane,
        title=chart.title,
        curves=tuple(curves if len(lines) == 1 else _apart(curves, pane)),
        across=tuple((across(x), text) for x, text in chart.ticks),
        rules=tuple((height(step), chart.form.format(step)) for step in steps),
        level=None if chart.level is None else height(chart.level),
        mark=None if chart.mark is None else (across(chart.mark[0]), chart.mark[1]),
    )


def _span(chart: Chart, lines: Sequence[ChartLine]) -> tuple[float, float]:
    """The scale's ends: those that are given, else those of the lines."""
    values = [y for line in lines for _, y in line.points if y is not None]
    low = min(values) if chart.low is None else min(chart.low, *values)
    high = max(values) if chart.high is None else max(chart.high, *values)
    return (low, high) if high - low >= 1e-6 else (low - 0.5, high + 0.5)


def _averaged(line: ChartLine) -> ChartLine:
    """A line of at most `POINTS` points, each the mean of as many."""
    size = -(-len(line.points) // POINTS)
    if size < 2:
        return line
    parts = [line.points[at : at + size] for at in range(0, len(line.points), size)]
    points = []
    for part in parts:
        known = [(x, y) for x, y in part if y is not None]
        mean = math.fsum(y for _, y in known) / len(known) if known else None
        points.append((math.fsum(x for x, _ in part) / len(part), mean))
    return replace(line, points=tuple(points), tips=())


def _curve(line: ChartLine, placed: Sequence[tuple[float, float | None]], kind: str) -> Curve:
    parts, pen = [], "M"
    for x, y in placed:
        if y is not None:
            parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "M" if y is None else "L"
    known = [(x, y) for x, y in placed if y is not None]
    if len(known) == 1:
        # A single point would be no line.
        parts = [f"M{known[0][0] - 2:.1f} {known[0][1]:.1f}h4"]
    tips = [tip for tip, (_, y) in zip(line.tips, placed, strict=False) if y is not None]
    points = tuple((x, y, tip) for (x, y), tip in zip(known, tips, strict=False))
    css = f"{kind} second" if line.second else kind
    return Curve(css, "".join(parts), points, line.name, known[-1])


def _apart(curves: Sequence[Curve], pane: Pane) -> list[Curve]:
    """The names in the margin, each at the height of its end or so far below that none hide."""
    ordered = sorted(curves, key=lambda each: each.name_at[1])
    lowest, moved = -math.inf, []
    for number, each in enumerate(ordered):
        latest = pane.height - 2.0 - NAMES * (len(ordered) - number - 1)
        lowest = min(max(each.name_at[1] + 4.0, lowest + NAMES), latest)
        moved.append(replace(each, name_at=(pane.edges[1] + 8.0, round(lowest, 1))))
    return moved
