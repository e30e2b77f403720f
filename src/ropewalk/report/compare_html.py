"""A comparison as one HTML page: the lesson's table with measured columns, charts, findings.

Charts are inline SVG with a table of the same numbers below; no script, no network (`page`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.comparison.ordering import Interval
from ropewalk.comparison.run import Comparison, described
from ropewalk.comparison.settings import FAR, Variant
from ropewalk.positions.base import Description
from ropewalk.report import page
from ropewalk.report.compare_charts import FRAMES, charts, kind_of
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
    schedule_rows,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Row:
    """An encoding in both tables: the field's words, and what was measured."""

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
        schedules=schedule_rows(found),
        windows=(settings.trained_length, FAR * settings.trained_length),
        charts=list(zip(*(charts(found, frame) for frame in FRAMES), strict=True)),
        style=page.trusted(style),
        style_hash=page.policy_hash(style),
    )


def _columns(found: Comparison) -> tuple[list[str], list[tuple[Number, str]]]:
    """Titles of the measured columns, and the number and form of each."""
    settings = found.settings
    trained, beyond = settings.trained_length, FAR * settings.trained_length
    titles = [
        f"sliding loss at {trained}",
        f"sliding loss at {beyond}",
        f"non-overlapping at {trained}",
        f"non-overlapping at {beyond}",
        f"recall, far, at {trained}",
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
        (recall_at(trained, near=False), "{:.0%}"),
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
    return Row(kind_of(found, variant), name(variant), said, f"{kept[0].added:,}", tuple(cells))


def _shown(value: Interval | None, form: str) -> str:
    if value is None:
        return "refused"
    half = f" \u00b1 {form.format(value.high - value.mean)}" if value.count > 1 else ""
    return form.format(value.mean) + half
