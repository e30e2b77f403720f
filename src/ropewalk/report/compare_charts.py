"""The charts of a comparison as points of SVG: an encoding is a curve with its name at the end.

Each is drawn twice, for a wide screen and for a telephone, so that letters keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.comparison.ordering import Interval
from ropewalk.comparison.run import Comparison
from ropewalk.comparison.settings import LENGTHS, Variant
from ropewalk.report.compare_words import (
    Number,
    loss_in,
    name,
    over_seeds,
    probe_at,
    recall_at,
)
from ropewalk.short import short

LINE = 13.0
"""Between two names, at least, in SVG pixels."""


@short
@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a chart in SVG pixels; names stand in the margin at the right."""

    kind: str
    width: float
    height: float = 250.0
    left: float = 46.0
    right: float = 146.0
    top: float = 14.0
    bottom: float = 30.0

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Where the curves are: from x to x, from y to y."""
        return self.left, self.width - self.right, self.top, self.height - self.bottom


FRAMES = (Frame("broad", 620.0), Frame("slim", 348.0, left=42.0, right=138.0))
"""For a wide screen, and for one of about 390 pixels."""


@short
@dataclass(frozen=True, slots=True)
class Curve:
    """One encoding in a chart: its CSS class, a path, points (x, y, tooltip), and its name."""

    kind: str
    path: str
    points: tuple[tuple[float, float, str], ...]
    name: str
    name_at: tuple[float, float]


@short
@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over windows, layers or positions; `rules` are heights with their labels."""

    frame: Frame
    title: str
    lead: str
    curves: tuple[Curve, ...]
    across: tuple[tuple[float, str], ...]
    rules: tuple[tuple[float, str], ...]
    chance: float | None


def kind_of(found: Comparison, variant: Variant) -> str:
    """The CSS class of a variant: its number among those shown."""
    return f"c{found.settings.variants.index(variant) % 10}"


def charts(found: Comparison, frame: Frame) -> list[Chart]:
    """All charts that there is something to draw in, in the order in which they are shown."""
    settings = found.settings
    windows = settings.windows
    # Four of the longer labels would touch each other in a slim chart.
    names = [
        str(window) if frame.width < 400.0 else f"{each}\u00d7 = {window}"
        for each, window in zip(LENGTHS, windows, strict=True)
    ]
    stride = settings.stride
    drawn = [
        _chart(found, frame, f"Sliding loss, stride {stride}",
               "The same tokens under every window: what changes is how far back it reaches.",
               names, [loss_in("sliding", w) for w in windows]),
        _chart(found, frame, "Non-overlapping loss, stride window - 1",
               "Falls with the window even where distant text is not used: fewer tokens stand at "
               "the beginning of a window.",
               names, [loss_in("non-overlapping", w) for w in windows]),
        _chart(found, frame, "Recall of a fact in the first eighth of the window",
               "Exact hits; the line is chance.",
               names, [recall_at(w, near=False) for w in windows], settings.language.chance),
        _chart(found, frame, f"Recall of a fact {settings.trained_length // 2} tokens back",
               "A distance that was trained, at positions that were not.",
               names, [recall_at(w, near=True) for w in windows], settings.language.chance),
        _by_position(found, frame),
        _chart(found, frame, "Position read off the hidden state, R\u00b2",
               "A linear map fitted on some streams and scored on others, before each block.",
               [f"block {each + 1}" for each in range(settings.layers)] + ["output"],
               [probe_at(layer) for layer in range(settings.layers + 1)], floor=0.0),
    ]  # fmt: skip
    return [each for each in drawn if each.curves]


def _by_position(found: Comparison, frame: Frame) -> Chart:
    starts = sorted({(p.start, p.end) for each in found.figures for p in each.positions})

    def at(start: int) -> Number:
        return lambda each: next((p.mean for p in each.positions if p.start == start), None)

    return _chart(
        found,
        frame,
        "Loss by position, one reading from the first token on",
        "Means from each position to the next one shown, and from the last one to the end; trained "
        f"to {found.settings.trained_length}.",
        [str(start) for start, _ in starts],
        [at(start) for start, _ in starts],
    )


def _chart(
    found: Comparison, frame: Frame, title: str, lead: str,
    across: Sequence[str], numbers: Sequence[Number],
    chance: float | None = None, floor: float | None = None,
) -> Chart:  # fmt: skip
    series = {
        variant: [over_seeds(found.of(variant), number) for number in numbers]
        for variant in found.settings.variants
    }
    values = [each.mean for line in series.values() for each in line if each is not None]
    low, high = _span(values, chance, floor)
    first, last, top, bottom = frame.edges
    places = [
        round(first + (last - first) * number / max(1, len(across) - 1), 1)
        for number in range(len(across))
    ]

    def height(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(top + (bottom - top) * (1.0 - share), 1)

    curves = [
        _curve(found, variant, places, [(x, height(x.mean)) if x else None for x in line])
        for variant, line in series.items()
        if any(line)
    ]
    steps = [low + (high - low) * part / 4 for part in range(5)]
    form = "{:.0%}" if chance is not None else "{:.2f}"
    return Chart(
        frame=frame,
        title=title,
        lead=lead,
        curves=tuple(_apart(curves, frame)),
        across=tuple(zip(places, across, strict=True)),
        rules=tuple((height(step), form.format(step)) for step in steps),
        chance=None if chance is None else height(chance),
    )


def _span(
    values: Sequence[float], chance: float | None, floor: float | None
) -> tuple[float, float]:
    """The scale: 0 to 1 for shares, else from the least value, or `floor`, to the largest."""
    if chance is not None:
        return 0.0, 1.0
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if floor is not None:
        low, high = floor, max(1.0, high)
    return (low, high) if high > low else (low, low + 1.0)


def _curve(
    found: Comparison,
    variant: Variant,
    places: Sequence[float],
    heights: Sequence[tuple[Interval, float] | None],
) -> Curve:
    points = [
        (x, at[1], f"{name(variant)}: {at[0].mean:.4g}")
        for x, at in zip(places, heights, strict=True)
        if at is not None
    ]
    path = "M" + "L".join(f"{x:.1f} {y}" for x, y, _ in points)
    said = name(variant) + (" (refused)" if len(points) < len(places) else "")
    return Curve(kind_of(found, variant), path, tuple(points), said, points[-1][:2])


def _apart(curves: Sequence[Curve], frame: Frame) -> list[Curve]:
    """The names in the margin, each at the height of its end or so far below that none hide."""
    ordered = sorted(curves, key=lambda each: each.name_at[1])
    lowest, moved = -math.inf, []
    for number, each in enumerate(ordered):
        latest = frame.height - 2.0 - LINE * (len(ordered) - number - 1)
        lowest = min(max(each.name_at[1] + 4.0, lowest + LINE), latest)
        at = frame.edges[1] + 8.0, round(lowest, 1)
        moved.append(Curve(each.kind, each.path, each.points, each.name, at))
    return moved
