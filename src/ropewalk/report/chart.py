"""A chart as points of SVG: lines over x, each with its name at its end.

Each is drawn twice, for a wide screen and for a telephone, so that letters keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ropewalk.report.document import Chart, ChartLine
from ropewalk.short import short

NAMES = 13.0
"""Between two names, at least, in SVG pixels."""

POINTS = 1500
"""Points of a line at most; more are averaged."""

_KINDS = ("c2", "c0", "c1", "c3", "c4", "c5", "c6", "c7", "c8", "c9")


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
