"""A tuning run as one HTML page: its curve, what short texts cost, what is found at which length.

Plain SVG and HTML without a script; no network, one file (see `page`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.report import page
from ropewalk.report.tune_text import data_words, proof_rows
from ropewalk.short import short

if TYPE_CHECKING:
    from ropewalk.extension.tune.session import Tuned
    from ropewalk.extension.tune.settings import TuneSettings

WIDTH, HEIGHT = 760.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 12.0, 12.0, 28.0
"""Of the chart, in SVG pixels."""
POINTS = 1500
"""Steps of a curve at most; more are averaged."""
_KINDS = ("main", "second", "third", "fourth")


@short
@dataclass(frozen=True, slots=True)
class Curve:
    """A line of the chart: its CSS class, its SVG path, and what it shows."""

    kind: str
    path: str
    name: str


@short
@dataclass(frozen=True, slots=True)
class Chart:
    """Losses over steps: curves, and scales as (place in pixels, label)."""

    curves: tuple[Curve, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]


def tune_html(done: Tuned, settings: TuneSettings) -> str:
    """The page. Raises MissingPartError without jinja2."""
    style = page.asset("look.css") + page.asset("tune.css")
    return (
        page.environment({"count": "{:,}".format, "four": "{:.4f}".format})
        .get_template("tune.html.j2")
        .render(
            title=done.about["title"],
            done=done,
            chart=loss_chart(done),
            read=sum(each.read for each in done.steps),
            seconds=math.fsum(each.seconds for each in done.steps),
            data=data_words(done),
            proof=proof_rows(done),
            settings=_settings(settings, done.about),
            width=WIDTH,
            height=HEIGHT,
            edge=(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM),
            style=page.trusted(style),
            style_hash=page.policy_hash(style),
        )
    )


def loss_chart(done: Tuned) -> Chart | None:
    """A curve for each length of row; None before there is a step."""
    if not done.steps:
        return None
    lengths = sorted({each.length for each in done.steps}, reverse=True)
    by_length = {
        length: _averaged([(each.step, each.loss) for each in done.steps if each.length == length])
        for length in lengths
    }
    values = [loss for points in by_length.values() for _, loss in points]
    last = max(2, done.steps[-1].step)
    low, high = min(values), max(values)
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - 1) / (last - 1)

    def y(loss: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - loss) / (high - low)

    curves = tuple(
        Curve(
            _KINDS[number % len(_KINDS)],
            _path([(x(step), y(loss)) for step, loss in points]),
            f"{length:,} tokens",
        )
        for number, (length, points) in enumerate(by_length.items())
    )
    steps = sorted({1 + round((last - 1) * i / 4) for i in range(5)})
    losses = [low + (high - low) * i / 4 for i in range(5)]
    return Chart(
        curves, tuple((x(s), f"{s:,}") for s in steps), tuple((y(v), f"{v:.3f}") for v in losses)
    )


def _averaged(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    group = -(-len(points) // POINTS)
    parts = [points[i : i + group] for i in range(0, len(points), group)]
    return [
        (math.fsum(s for s, _ in part) / len(part), math.fsum(v for _, v in part) / len(part))
        for part in parts
    ]


def _path(points: Sequence[tuple[float, float]]) -> str:
    if len(points) == 1:
        # A single step would be no line.
        (at, height) = points[0]
        points = [(at - 2, height), (at + 2, height)]
    return "".join(f"{'ML'[i > 0]}{at:.1f} {v:.1f}" for i, (at, v) in enumerate(points))


def _settings(settings: TuneSettings, about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked for, in the words of the command line."""
    lora = "none, all weights are trained" if settings.lora is None else str(settings.lora)
    return [
        ("Command", settings.command or "from Python"),
        ("Data", ", ".join(map(str, settings.data))),
        ("Length", str(settings.mix)),
        ("Rows a step", str(settings.rows)),
        ("Documents kept apart", "yes" if settings.mask else "no"),
        ("Positions", settings.positions),
        ("Learning rate", f"{settings.lr:g}, {settings.decay}, {settings.warmup} steps up"),
        ("Weight decay, clip", f"{settings.weight_decay:g}, {settings.clip:g}"),
        ("Number type", about["dtype"]),
        ("Adapters' rank", lora),
        ("Seed", str(settings.seed)),
    ]
