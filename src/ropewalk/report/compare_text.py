"""A comparison in the terminal, in ASCII, and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from ropewalk.comparison.run import Comparison, described
from ropewalk.comparison.settings import FAR, LENGTHS, Variant
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
from ropewalk.report.layout import Drawn, Piece, Prose, Table, lines, wrapped
from ropewalk.report.text import visible

WIDTH = 100
LABEL = 26
"""Width of the first column of every table."""
PLOT_WIDTH, PLOT_HEIGHT = 72, 16
_SCALE = 10
"""Cells of the scale beside the plot."""
SCHEMA = "ropewalk.compare/1"
MARKS = {
    "sinusoidal": "s",
    "learned": "l",
    "rope": "r",
    "alibi": "a",
    "t5": "t",
    "none": "n",
    "raw_index": "i",
}


def compare_lines(found: Comparison, width: int = WIDTH) -> Iterator[str]:
    """The comparison, line by line, in `width` columns, WIDTH at most."""
    yield from lines(_pieces(found), min(width, WIDTH))


def _pieces(found: Comparison) -> Iterator[Piece]:
    yield from _wrapped(visible(head(found)))
    yield ""
    yield from _lesson_table(found)
    yield ""
    yield from _wrapped(how(found.settings))
    yield ""
    yield from _measured(found)
    yield from _schedules(found)
    yield ""
    yield Drawn(lambda width: _plot(found, width))
    yield ""
    yield "The published ordering, tested on these figures:"
    for each in found.findings():
        yield from _wrapped(
            f"- {each.statement}: {each.verdict.upper()} ({visible(each.reason)}).", "  "
        )
    if said := lesson(found):
        yield ""
        yield from _wrapped(said)


def compare_json(found: Comparison) -> dict[str, object]:
    """Everything as plain JSON values: settings, each decoder, speeds, findings, descriptions."""
    settings = found.settings
    return {
        "schema": SCHEMA,
        "machine": found.machine,
        "settings": {**settings.document(), "stride": settings.stride},
        "chance": settings.language.chance,
        "encodings": {
            each.name: {
                **asdict(described(settings, each)),
                "tokens_per_second": found.speeds.get(each.name),
            }
            for each in settings.variants
        },
        "decoders": [each.document() for each in found.figures],
        "findings": [{**asdict(each), "verdict": each.verdict} for each in found.findings()],
        "lesson": lesson(found),
    }


def _lesson_table(found: Comparison) -> Iterator[Piece]:
    """What each encoding is, in the field's words, and what it added here."""
    for variant in found.settings.variants:
        row = described(found.settings, variant)
        parameters = f"{found.of(variant)[0].added:,}"
        if not row.parameters.isdigit():
            parameters += f" ({row.parameters})"
        applied = row.applied_to + (", before every block" if variant.again else "")
        yield from _wrapped(
            f"{name(variant)}: parameters added {parameters}; applied to {applied}; encodes "
            f"{row.encodes}; beyond the trained length: {row.beyond_trained_length}; used by "
            f"{row.typical_users}.",
            "  ",
        )


def _measured(found: Comparison) -> Iterator[Piece]:
    """Losses, recall, probes and speed, a table each."""
    trained, windows = found.settings.trained_length, found.settings.windows
    over = [f"{each} x = {window}" for each, window in zip(LENGTHS, windows, strict=True)]
    for kind, title in (
        ("non-overlapping", "loss, non-overlapping"),
        ("sliding", f"loss, sliding, stride {found.settings.stride}"),
    ):
        numbers: list[Number] = [loss_in(kind, window) for window in windows]
        yield from _table(found, title, over, numbers, "{:.3f}")
    for near, title in (
        (True, f"recall, {trained // 2} tokens back"),
        (False, "recall, first eighth"),
    ):
        numbers = [recall_at(window, near=near) for window in windows]
        yield from _table(found, title, over, numbers, "{:.0%}")
    layers = range(found.settings.layers + 1)
    over = [f"block {each + 1}" for each in layers[:-1]] + ["output"]
    numbers = [probe_at(layer) for layer in layers]
    yield from _table(found, "position, R^2, before", over, numbers, "{:.3f}")
    heads = (f"{'parameters':>17}", f"{'tokens a second':>17}")
    table = [(f"{'speed of training':<{LABEL + 4}}", *heads)]
    for variant in found.settings.variants:
        figures = (
            f"{found.of(variant)[0].parameters:>17,}",
            f"{found.speeds[variant.name]:>17,.0f}",
        )
        table.append((f"  {name(variant):<{LABEL + 2}}", *figures))
    yield Table(table)


def _table(
    found: Comparison, title: str, over: Sequence[str], numbers: Sequence[Number], form: str
) -> Iterator[Piece]:
    wide = min(17, (WIDTH - LABEL - 4) // len(over))
    table = [[f"{title:<{LABEL + 4}}", *(f"{each:>{wide}}" for each in over)]]
    for variant in found.settings.variants:
        cells = [_cell(found, variant, number, form) for number in numbers]
        table.append([f"  {name(variant):<{LABEL + 2}}", *(f"{cell:>{wide}}" for cell in cells)])
    yield Table(table)
    yield ""


def _cell(found: Comparison, variant: Variant, number: Number, form: str) -> str:
    """A mean, with half the width of its 95 % interval where there are several seeds."""
    value = over_seeds(found.of(variant), number)
    if value is None:
        return "refused"
    half = value.high - value.mean
    return form.format(value.mean) + (f" +-{form.format(half)}" if value.count > 1 else "")


def _schedules(found: Comparison) -> Iterator[Piece]:
    """RoPE under other schedules, without training."""
    rows = schedule_rows(found)
    if not rows:
        return
    trained = found.settings.trained_length
    yield ""
    title = "RoPE, weights as trained"
    heads = (f"sliding at {trained}", f"at {FAR * trained}", "recall, near", "recall, far")
    table = [[f"{title:<{LABEL + 4}}", *(f"{head:>17}" for head in heads)]]
    for label, cells in rows:
        table.append([f"  {label:<{LABEL + 2}}", *(f"{cell:>17}" for cell in cells)])
    yield Table(table)


def _plot(found: Comparison, width: int) -> Iterator[str]:
    """Loss by position in one long reading; a letter for each encoding, positions doubling."""
    curves = {
        MARKS[each.position].upper() if each.again else MARKS[each.position]: [
            (each_part.start, each_part.mean) for each_part in found.of(each)[0].positions
        ]
        for each in found.settings.variants
    }
    values = [y for points in curves.values() for _, y in points]
    low, high = min(values), max(values)
    starts = sorted({x for points in curves.values() for x, _ in points})
    yield from wrapped("loss by position, one reading from the first token on (first seed):", width)
    # Each encoding has a column of its own within a part: none hides another.
    step = max(len(curves), max(len(f"{start} ") for start in starts),
               min(PLOT_WIDTH, width - _SCALE) // len(starts))  # fmt: skip
    across = max(1, (width - _SCALE) // step)
    for first in range(0, len(starts), across):
        yield from _part(curves, starts[first : first + across], step, (low, high))
    legend = [
        f"{mark} {name(each)}" for mark, each in zip(curves, found.settings.variants, strict=True)
    ]
    yield from wrapped(f"position from; trained to {found.settings.trained_length}. "
                       + ", ".join(legend), width)  # fmt: skip


def _part(
    curves: Mapping[str, Sequence[tuple[int, float]]],
    starts: Sequence[int],
    step: int,
    ends: tuple[float, float],
) -> Iterator[str]:
    """The plot from one position to another; where a terminal is narrow there are several."""
    low, high = ends
    rows = [[" "] * (step * len(starts)) for _ in range(PLOT_HEIGHT)]
    for number, (mark, points) in enumerate(curves.items()):
        for x, y in points:
            if x in starts:
                share = (y - low) / (high - low) if high > low else 0.0
                row = round((1.0 - share) * (PLOT_HEIGHT - 1))
                rows[row][starts.index(x) * step + number] = mark
    for down, line in enumerate(rows):
        value = high - (high - low) * down / (PLOT_HEIGHT - 1)
        yield f"{value:>8.3f} |{''.join(line).rstrip()}"
    yield (f"{'':>8} +" + "".join(f"{start:<{step}}" for start in starts)).rstrip()


def _wrapped(text: str, indent: str = "") -> Iterator[Piece]:
    yield Prose(text, rest=indent)
