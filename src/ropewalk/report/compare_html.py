"""A comparison as one HTML page: the lesson's table with measured columns, charts, findings.

Charts are inline SVG with a table of the same numbers below; no script, no network (`page`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.compare.ordering import Interval
from ropewalk.compare.run import Comparison, described
from ropewalk.compare.settings import FAR, LENGTHS, Variant
from ropewalk.positions.base import Description
from ropewalk.report import page
from ropewalk.report.compare_words import (
    Number,
    head,
    how,
    lesson,
    loss_in,
    name,
    over_seeds,
    probe_at,
    recall_at,
)

WIDTH, HEIGHT = 600.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 118.0, 14.0, 30.0
"""Of each chart, in SVG pixels; the names stand at the right."""
LINE = 13.0
"""Between two names, at least."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One encoding in a chart: its CSS class, a path, points (x, y, tooltip), and its name."""

    kind: str
    path: str
    points: tuple[tuple[float, float, str], ...]
    name: str
    name_at: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over windows, layers or positions; `rules` are heights with their labels."""

    title: str
    lead: str
    curves: tuple[Curve, ...]
    across: tuple[tuple[float, str], ...]
    rules: tuple[tuple[float, str], ...]
    chance: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the lesson's table: the field's words, and what was measured."""

    kind: str
    name: str
    said: Description
    added: str
    cells: tuple[str, ...]


def compare_html(found: Comparison) -> str:
    """The page. Raises MissingPartError without jinja2."""
    style = page.asset("look.css") + page.asset("compare.css")
    environment = page.environment()
    settings = found.settings
    return environment.get_template("compare.html.j2").render(
        head=head(found),
        how=how(settings),
        lesson=lesson(found),
        findings=found.findings(),
        columns=_columns(found)[0],
        rows=[_row(found, variant) for variant in settings.variants],
        charts=_charts(found),
        width=WIDTH,
        height=HEIGHT,
        edge=(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM),
        style=page.trusted(style),
        style_hash=page.policy_hash(style),
    )


def _columns(found: Comparison) -> tuple[list[str], list[tuple[Number, str]]]:
    """Titles of the measured columns, and the number and form of each."""
    settings = found.settings
    trained, beyond = settings.trained_length, FAR * settings.trained_length
    titles = [
        f"sliding loss at {trained}",
        f"at {beyond}",
        f"non-overlapping at {trained}",
        f"at {beyond}",
        f"recall, near, at {beyond}",
        f"recall, far, at {beyond}",
        "position in the first block, R\u00b2",
        "in the output, R\u00b2",
        "tokens a second",
    ]
    numbers: list[tuple[Number, str]] = [
        (loss_in("sliding", trained), "{:.3f}"),
        (loss_in("sliding", beyond), "{:.3f}"),
        (loss_in("non-overlapping", trained), "{:.3f}"),
        (loss_in("non-overlapping", beyond), "{:.3f}"),
        (recall_at(beyond, near=True), "{:.0%}"),
        (recall_at(beyond, near=False), "{:.0%}"),
        (probe_at(0), "{:.3f}"),
        (probe_at(settings.layers), "{:.3f}"),
    ]
    return titles, numbers


def _row(found: Comparison, variant: Variant) -> Row:
    kept = found.of(variant)
    cells = [_shown(over_seeds(kept, number), form) for number, form in _columns(found)[1]]
    cells.append(f"{found.speeds[variant.name]:,.0f}")
    said = described(found.settings, variant)
    return Row(_kind(found, variant), name(variant), said, f"{kept[0].added:,}", tuple(cells))


def _shown(value: Interval | None, form: str) -> str:
    if value is None:
        return "refused"
    half = f" \u00b1 {form.format(value.high - value.mean)}" if value.count > 1 else ""
    return form.format(value.mean) + half


def _kind(found: Comparison, variant: Variant) -> str:
    """The CSS class of a variant: its number among those shown."""
    return f"c{found.settings.variants.index(variant) % 10}"


def _charts(found: Comparison) -> list[Chart]:
    settings = found.settings
    windows = [
        (f"{each}\u00d7 = {window}", window)
        for each, window in zip(LENGTHS, settings.windows, strict=True)
    ]
    names = [text for text, _ in windows]
    stride = settings.stride
    charts = [
        _chart(found, f"Sliding loss, stride {stride}",
               "The same tokens under every window: what changes is how far back it reaches.",
               names, [loss_in("sliding", w) for _, w in windows]),
        _chart(found, "Non-overlapping loss, stride window - 1",
               "Falls with the window even where distant text is not used: fewer tokens stand at "
               "the beginning of a window.",
               names, [loss_in("non-overlapping", w) for _, w in windows]),
        _chart(found, "Recall of a fact in the first eighth of the window",
               "Exact hits; the line is chance.",
               names, [recall_at(w, near=False) for _, w in windows], settings.language.chance),
        _chart(found, f"Recall of a fact {settings.trained_length // 2} tokens back",
               "A distance that was trained, at positions that were not.",
               names, [recall_at(w, near=True) for _, w in windows], settings.language.chance),
        _by_position(found),
        _chart(found, "Position read off the hidden state, R\u00b2",
               "A linear map fitted on some streams and scored on others, before each block.",
               [f"block {each + 1}" for each in range(settings.layers)] + ["output"],
               [probe_at(layer) for layer in range(settings.layers + 1)], floor=0.0),
    ]  # fmt: skip
    return [each for each in charts if each.curves]


def _by_position(found: Comparison) -> Chart:
    starts = sorted({(p.start, p.end) for each in found.figures for p in each.positions})

    def at(start: int) -> Number:
        return lambda each: next((p.mean for p in each.positions if p.start == start), None)

    return _chart(
        found,
        "Loss by position, one reading from the first token on",
        f"Trained to {found.settings.trained_length}.",
        [f"{start} to {end - 1}" for start, end in starts],
        [at(start) for start, _ in starts],
    )


def _chart(
    found: Comparison, title: str, lead: str, across: Sequence[str], numbers: Sequence[Number],
    chance: float | None = None, floor: float | None = None,
) -> Chart:  # fmt: skip
    series = {
        variant: [over_seeds(found.of(variant), number) for number in numbers]
        for variant in found.settings.variants
    }
    values = [each.mean for line in series.values() for each in line if each is not None]
    low, high = _span(values, chance, floor)
    places = [
        LEFT + (WIDTH - LEFT - RIGHT) * number / max(1, len(across) - 1)
        for number in range(len(across))
    ]

    def height(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share), 1)

    curves = [
        _curve(found, variant, places, [(x, height(x.mean)) if x else None for x in line])
        for variant, line in series.items()
        if any(line)
    ]
    steps = [low + (high - low) * part / 4 for part in range(5)]
    form = "{:.0%}" if chance is not None else "{:.2f}"
    return Chart(
        title=title,
        lead=lead,
        curves=tuple(_apart(curves)),
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
    last = points[-1]
    return Curve(
        _kind(found, variant), path, tuple(points), name(variant), (last[0] + 8.0, last[1] + 4.0)
    )


def _apart(curves: Sequence[Curve]) -> list[Curve]:
    """The names moved down where two would stand on each other; all stay within the chart."""
    ordered = sorted(curves, key=lambda each: each.name_at[1])
    spare = math.fsum(LINE for _ in ordered)
    top, moved = -math.inf, []
    for number, each in enumerate(ordered):
        latest = HEIGHT - 2.0 - (spare - LINE * (number + 1))
        y = min(max(each.name_at[1], top + LINE), latest)
        top = y
        x = WIDTH - RIGHT + 8.0 if len(ordered) > 1 else each.name_at[0]
        moved.append(Curve(each.kind, each.path, each.points, each.name, (x, round(y, 1))))
    return moved
