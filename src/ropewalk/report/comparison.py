"""A comparison of encodings as a document: tables, charts, and the published ordering tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from ropewalk.comparison.ordering import Interval
from ropewalk.comparison.presets import FAR, LENGTHS, Variant
from ropewalk.comparison.run import Comparison, described
from ropewalk.report.document import (
    Block,
    Chart,
    ChartLine,
    Column,
    Document,
    Drawn,
    Heading,
    Prose,
    Table,
    in_terminal,
    on_page,
)
from ropewalk.report.lesson import (
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
from ropewalk.report.text import wrapped

WIDTH = 100
LABEL = 30
"""Cells of the first column of every table."""
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


def document(found: Comparison) -> Document:
    """What each encoding is, what was measured of it, and whether the published ordering holds."""
    title = "Encodings of position, trained alike and measured beyond their length"
    return Document(title, tuple(_blocks(found)), "ropewalk compare", width=WIDTH)


def _blocks(found: Comparison) -> Iterator[Block]:
    yield Prose(head(found), verdict=True)
    yield ""
    yield in_terminal(*_said(found))
    yield in_terminal("", Prose(how(found.settings)), "")
    yield on_page(Heading("What was measured", how(found.settings)))
    yield from _measured(found)
    yield from _schedules(found)
    yield in_terminal("", Drawn(lambda width: _plot(found, width)), "")
    ordering = "The published ordering, tested on these figures"
    yield in_terminal(f"{ordering}:")
    yield on_page(Heading(ordering))
    for each in found.findings():
        verdict = f"{each.statement}: {each.verdict.upper()} ({each.reason})."
        yield Prose(verdict, "- ", "  ")
    if said := lesson(found):
        yield ""
        yield Prose(said)
    yield on_page(Heading("Charts"), *charts(found))
    yield on_page(Heading("What each is said to be"), _said_table(found))


def values(found: Comparison) -> dict[str, object]:
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


def _said(found: Comparison) -> Iterator[Block]:
    """What each encoding is, in the field's words, and what it added here."""
    for variant in found.settings.variants:
        row = described(found.settings, variant)
        applied = row.applied_to + (", before every block" if variant.again else "")
        yield Prose(
            f"{name(variant)}: parameters added {_parameters(found, variant)}; applied to "
            f"{applied}; encodes {row.encodes}; beyond the trained length: "
            f"{row.beyond_trained_length}; used by {row.typical_users}.",
            rest="  ",
        )


def _parameters(found: Comparison, variant: Variant) -> str:
    added = f"{found.of(variant)[0].added:,}"
    said = described(found.settings, variant).parameters
    return added if said.isdigit() else f"{added} ({said})"


def _said_table(found: Comparison) -> Table:
    rows = [(each, described(found.settings, each)) for each in found.settings.variants]
    columns = (
        Column("encoding", of=lambda row: name(row[0])),
        Column("parameters added", of=lambda row: _parameters(found, row[0]), align="<"),
        Column("applied to", of=lambda row: row[1].applied_to, align="<"),
        Column("encodes", of=lambda row: row[1].encodes, align="<"),
        Column("beyond the trained length", of=lambda row: row[1].beyond_trained_length, align="<"),
        Column("used by", of=lambda row: row[1].typical_users, align="<"),
    )
    return Table(columns, rows, words=True, key="encodings", dots=_dots(found))


def _measured(found: Comparison) -> Iterator[Block]:
    """Losses, recall, probes and speed, one table per measure."""
    trained, windows = found.settings.trained_length, found.settings.windows
    over = [f"{each} x = {window}" for each, window in zip(LENGTHS, windows, strict=True)]
    for kind, title in (
        ("non-overlapping", "loss, non-overlapping"),
        ("sliding", f"loss, sliding, stride {found.settings.stride}"),
    ):
        numbers: list[Number] = [loss_in(kind, window) for window in windows]
        yield _table(found, title, over, numbers, "{:.3f}")
        yield ""
    for near, title in (
        (True, f"recall, {trained // 2} tokens back"),
        (False, "recall, first eighth"),
    ):
        numbers = [recall_at(window, near=near) for window in windows]
        yield _table(found, title, over, numbers, "{:.0%}")
        yield ""
    layers = range(found.settings.layers + 1)
    over = [f"block {each + 1}" for each in layers[:-1]] + ["output"]
    numbers = [probe_at(layer) for layer in layers]
    yield _table(found, "position, R^2, before", over, numbers, "{:.3f}")
    yield ""
    columns = (
        Column("speed of training", LABEL, name),
        Column("parameters", 17, lambda each: found.of(each)[0].parameters, "{:,}"),
        Column("tokens a second", 17, lambda each: found.speeds[each.name], "{:,.0f}"),
    )
    yield Table(columns, found.settings.variants, key="speed", dots=_dots(found))


def _table(
    found: Comparison, title: str, over: Sequence[str], numbers: Sequence[Number], form: str
) -> Table:
    """A number of every encoding over windows or layers: its mean over the seeds."""
    wide = min(17, (WIDTH - LABEL) // len(over))

    def of(number: Number) -> Callable[[Variant], Interval | None]:
        return lambda variant: over_seeds(found.of(variant), number)

    def shown(value: Interval) -> str:
        half = f" +-{form.format(value.high - value.mean)}" if value.count > 1 else ""
        return form.format(value.mean) + half

    columns = [Column(title, LABEL, name, key="encoding")]
    columns += [
        Column(each, wide, of(number), shown, absent="refused")
        for each, number in zip(over, numbers, strict=True)
    ]
    return Table(columns, found.settings.variants, key=title, dots=_dots(found))


def _schedules(found: Comparison) -> Iterator[Block]:
    """RoPE under other schedules, without training."""
    rows = schedule_rows(found)
    if not rows:
        return
    trained = found.settings.trained_length
    yield ""
    yield on_page(Heading("RoPE under other schedules, weights as trained"))
    heads = (f"sliding at {trained}", f"at {FAR * trained}", "recall, near", "recall, far")
    columns = [Column("RoPE, weights as trained", LABEL, lambda row: row[0], key="schedule")]
    columns += [
        Column(each, 17, lambda row, at=at: row[1][at])  # type: ignore[misc]
        for at, each in enumerate(heads)
    ]
    yield Table(columns, rows, key="schedules")


def _kind(found: Comparison, variant: Variant) -> str:
    """The colour of a variant: its number among those shown."""
    return f"c{found.settings.variants.index(variant) % 10}"


def _dots(found: Comparison) -> list[str]:
    return [_kind(found, each) for each in found.settings.variants]


def charts(found: Comparison) -> list[Chart]:
    """Every chart, in the order in which they are shown."""
    settings = found.settings
    windows, chance = settings.windows, settings.language.chance
    over = [str(window) for window in windows]
    layers = settings.layers + 1
    starts = sorted({p.start for each in found.figures for p in each.positions})

    def at(start: int) -> Number:
        return lambda each: next((p.mean for p in each.positions if p.start == start), None)

    return [
        _chart(found, f"Sliding loss, stride {settings.stride}",
               "The same tokens under every window: what changes is how far back it reaches.",
               over, [loss_in("sliding", w) for w in windows]),
        _chart(found, "Non-overlapping loss, stride window - 1",
               "Falls with the window even where distant text is not used: fewer tokens stand at "
               "the beginning of a window.",
               over, [loss_in("non-overlapping", w) for w in windows]),
        _chart(found, "Recall of a fact in the first eighth of the window",
               "Exact hits; the line is chance.",
               over, [recall_at(w, near=False) for w in windows], chance=chance),
        _chart(found, f"Recall of a fact {settings.trained_length // 2} tokens back",
               "A distance that was trained, at positions that were not.",
               over, [recall_at(w, near=True) for w in windows], chance=chance),
        _chart(found, "Loss by position, one reading from the first token on",
               "Means from each position to the next one shown, and from the last one to the end; "
               f"trained to {settings.trained_length}.",
               [str(start) for start in starts], [at(start) for start in starts]),
        _chart(found, "Position read off the hidden state, R\u00b2",
               "A linear map fitted on some streams and scored on others, before each block.",
               [f"block {each}" for each in range(1, layers)] + ["output"],
               [probe_at(layer) for layer in range(layers)], floor=0.0),
    ]  # fmt: skip


def _chart(
    found: Comparison, title: str, lead: str, across: Sequence[str], numbers: Sequence[Number],
    chance: float | None = None, floor: float | None = None,
) -> Chart:  # fmt: skip
    lines = []
    for variant in found.settings.variants:
        kept = [over_seeds(found.of(variant), number) for number in numbers]
        if not any(kept):
            continue
        refused = " (refused)" if None in kept else ""
        points = [(float(x), each.mean) for x, each in enumerate(kept) if each is not None]
        tips = tuple(f"{name(variant)}: {mean:.4g}" for _, mean in points)
        kind = _kind(found, variant)
        lines.append(ChartLine(name(variant) + refused, tuple(points), tips, kind=kind))
    whole = chance is not None
    return Chart(
        title,
        tuple(lines),
        tuple((float(x), text) for x, text in enumerate(across)),
        lead,
        0.0 if whole else floor,
        1.0 if whole or floor is not None else None,
        "{:.0%}" if whole else "{:.2f}",
        level=chance,
    )


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
