"""A learned position table as one HTML page: heat map, curves, and the numbers behind them.

Curves and numbers are plain SVG and HTML; the heat map is painted by the page's own script and
can be read with the mouse or the arrow keys. No network, one file (see `page`).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.report import page, scale
from ropewalk.report import table_positions as words
from ropewalk.short import short
from ropewalk.tables.positions_table import PositionTable

if TYPE_CHECKING:
    from torch import Tensor

MAP_POSITIONS = 512
"""Positions across and down the heat map at most."""
CURVE_POINTS = 2048
"""Points of a curve at most."""
WIDTH, HEIGHT = 560.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 12.0, 26.0
"""Of each chart, in SVG pixels."""


@short
@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a chart: a CSS class, and an SVG path."""

    kind: str
    path: str


@short
@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over positions or distances; `mark` is the x of the effective end, or None."""

    title: str
    lead: str
    curves: tuple[Curve, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    mark: float | None


def positions_html(found: PositionTable, title: str, line: str) -> str:
    """The page; `title` names the model, `line` says what was read of which file.

    Raises MissingPartError without jinja2.
    """
    at = words.spaced(found.positions, MAP_POSITIONS)
    style = page.asset("look.css") + page.asset("table_positions.css")
    script = page.asset("table_positions.js")
    environment = page.environment({"count": "{:,}".format, "cosine": "{:.3f}".format})
    return environment.get_template("table_positions.html.j2").render(
        title=title,
        line=line,
        found=found,
        words=words,
        charts=_charts(found),
        width=WIDTH,
        height=HEIGHT,
        edge=(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM),
        shown=len(at),
        scale=[(scale.colour(i / 20), 9 * i) for i in range(21)],
        style=page.trusted(style),
        script=page.trusted(script),
        style_hash=page.policy_hash(style),
        script_hash=page.policy_hash(script),
        data=page.embedded(
            {
                "at": at,
                "cosines": _packed(found.similarity(at)),
                "colours": [scale.colour(i / 254) for i in range(255)],
            }
        ),
    )


def _packed(cosines: Tensor) -> str:
    """Cosines from -1 to 1 as one byte each, 0 to 254, in base64; 255 stands for NaN."""
    import torch

    scaled = ((cosines + 1) * 127).round()
    held = torch.nan_to_num(scaled, nan=255.0).to(torch.uint8)
    return base64.b64encode(held.contiguous().numpy().tobytes()).decode()


def _charts(found: PositionTable) -> tuple[Chart, ...]:
    n = found.positions
    at = words.spaced(n, CURVE_POINTS)
    effective = found.end.effective
    mark = None if not effective or effective == n else _x(effective - 0.5, n)
    norms, beside = ([values[p] for p in at] for values in (found.norms, found.beside))
    distances = [d for d in at if d]
    return (
        _chart("Norm of each position", "", at, [("main", norms)], n, mark, low=0.0),
        _chart(
            "Cosine with the row before",
            "Trained neighbours are alike; rows that no text reached are not.",
            at,
            [("main", beside)],
            n,
            mark,
            low=0.0,
            high=1.0,
        ),
        _chart(
            "Mean cosine of all pairs at a distance",
            "Solid: as the rows are. Dashed: with the mean of all rows taken off.",
            distances,
            [
                ("main", [found.profile[d] for d in distances]),
                ("second", [found.centred_profile[d] for d in distances]),
            ],
            n,
            None,
            low=0.0,
            high=1.0,
        ),
    )


def _chart(
    title: str,
    lead: str,
    at: Sequence[int],
    curves: Sequence[tuple[str, Sequence[Tensor]]],
    n: int,
    mark: float | None,
    *,
    low: float,
    high: float | None = None,
) -> Chart:
    values = [[float(v) for v in curve] for _, curve in curves]
    real = [v for curve in values for v in curve if v == v]
    bottom = min([low, *real])
    top = max([high if high is not None else 0.0, *real]) or 1.0
    ticks = _ticks(bottom, top)
    bottom, top = min(bottom, ticks[0]), max(top, ticks[-1])

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom)

    paths = []
    for (kind, _), curve in zip(curves, values, strict=True):
        parts, pen = [], "M"
        for position, value in zip(at, curve, strict=True):
            if value != value:
                pen = "M"
                continue
            parts.append(f"{pen}{_x(position, n):.1f} {y(value):.1f}")
            pen = "L"
        paths.append(Curve(kind, "".join(parts)))
    across = tuple((_x(p, n), f"{p:,}") for p in words.spaced(n, 5))
    return Chart(title, lead, tuple(paths), across, tuple((y(t), f"{t:g}") for t in ticks), mark)


def _x(position: float, n: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * position / (n - 1)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, about five."""
    step = 10 ** math.floor(math.log10((high - low) / 2))
    step *= next((m for m in (1, 2, 2.5, 5) if (high - low) / (step * m) <= 5), 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * i, 12) + 0.0 for i in range(first, last + 1)]
