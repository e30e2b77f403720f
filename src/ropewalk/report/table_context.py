"""A word's meanings, layer by layer, as a document.

With two occurrences each layer has one cosine; with more, the mean within the groups and the mean
across them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

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
from ropewalk.report.lines import text_lines
from ropewalk.report.text import clip
from ropewalk.short import short

if TYPE_CHECKING:
    from ropewalk.explain.meaning import LayerCosines, Meaning
    from ropewalk.explain.occurrences import Occurrence

WIDTH = 80
_LAYER = 11
"""Cells of a layer's name."""
_LEAST_PLOT = 16


@short
@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer in numbers: cosines as they are and centred. None where there is no such pair."""

    name: str
    within: float | None
    across: float
    others: float | None
    centred_within: float | None
    centred_across: float | None


def rows(meaning: Meaning) -> tuple[LayerRow, ...]:
    """Every layer's numbers. With two occurrences their one cosine counts as across."""
    return tuple(_row(meaning, layer) for layer in meaning.layers)


def _row(meaning: Meaning, layer: LayerCosines) -> LayerRow:
    if meaning.senses is None:
        centred = None if layer.centred is None else layer.centred[0][1]
        return LayerRow(layer.name, None, layer.cosines[0][1], layer.others, None, centred)
    senses = meaning.senses
    return LayerRow(
        layer.name,
        senses.within(layer.cosines),
        senses.across(layer.cosines),
        layer.others,
        None if layer.centred is None else senses.within(layer.centred),
        None if layer.centred is None else senses.across(layer.centred),
    )


PAIRED = {"across": "cosine", "others": "others", "centred_across": "less mean"}
GROUPED = {
    "within": "within",
    "across": "across",
    "others": "others",
    "centred_within": "within*",
    "centred_across": "across*",
}
"""What a layer's columns are called, with two occurrences, and with groups of more."""
_MARKS = {"within": "o", "across": "x", "others": "."}


def document(meaning: Meaning) -> Document:
    """The whole answer."""
    blocks: list[Block] = [
        Prose(f"{meaning.word!r} in {meaning.name}", rest=""),
        *(
            Prose(_occurrence(meaning, place, each), rest=" " * 6)
            for place, each in enumerate(meaning.occurrences)
        ),
        "",
    ]
    table, names = rows(meaning), PAIRED if meaning.senses is None else GROUPED
    columns = tuple(
        Column(name, max(8, len(name) + 1), attrgetter(key), "{:.2f}", key=key)
        for key, name in names.items()
    )
    layers = Table((Column("layer", _LAYER, attrgetter("name")), *columns), table, key="layers")
    blocks += [
        in_terminal(Drawn(lambda width: _plot(layers, names, width))),
        on_page(Heading("Layer by layer"), *_charts(table, names), layers),
    ]
    if len(meaning.occurrences) > 2:
        blocks += ["", *_squares(meaning, table)]
    blocks += ["", *(Prose(note, rest="") for note in notes(meaning))]
    question = f"What does {meaning.word!r} mean, layer by layer?"
    return Document(meaning.name, tuple(blocks), "ropewalk table context", question, WIDTH)


def values(meaning: Meaning) -> dict[str, object]:
    """The same as plain values."""
    held = asdict(meaning)
    for occurrence in held["occurrences"]:
        occurrence["special"] = sorted(occurrence["special"])
    return held


def notes(meaning: Meaning) -> Iterator[str]:
    """What the numbers are, and what to beware of, a sentence or two each."""
    if meaning.senses is not None:
        yield _widest(meaning)
        if meaning.senses.layer is not None:
            yield (
                f"The groups were found (average linkage at {meaning.senses.layer}, where they "
                "part furthest), not given: they say how the occurrences part, not that senses "
                "differ. --groups names your own."
            )
    if meaning.others:
        more = f" (a seeded sample; {meaning.dropped:,} more)" if meaning.dropped else ""
        less = "less mean" if meaning.senses is None else "*"
        yield (
            f"others: the mean cosine of pairs among {meaning.others:,} other tokens of the "
            f"sentences{more}; a cosine no higher says nothing. {less}: after their mean state "
            "is taken away."
        )
    else:
        yield "The sentences hold no other tokens, so nothing tells how alike any two states are."
    pieces = {tuple(o.pieces[i] for i in o.own) for o in meaning.occurrences}
    if len(pieces) > 1:
        listed = ", ".join("+".join(p) for p in sorted(pieces))
        yield f"The word is not the same tokens everywhere ({listed}), so its rows differ, too."
    if any(len(p) > 1 for p in pieces):
        yield f"Several tokens make up the word; taken: {meaning.pieces.value} (--pieces)."
    if any(o.of > o.number == 1 for o in meaning.occurrences) and not _all_taken(meaning):
        yield "Where it stands several times, the first is taken (--occurrence N or all)."
    if meaning.causal:
        yield "The model is causal: only what stands before the word can tell its meaning."
    for place in meaning.unseen:
        yield (
            f"Occurrence {place + 1} begins its sentence: nothing stands before it, so its states "
            "are the same in any sentence."
        )


def _all_taken(meaning: Meaning) -> bool:
    taken: dict[int, int] = {}
    for o in meaning.occurrences:
        taken[o.sentence] = taken.get(o.sentence, 0) + 1
    return all(taken[o.sentence] == o.of for o in meaning.occurrences)


def _widest(meaning: Meaning) -> str:
    """The layer at which the groups are furthest apart, in words."""
    parted = [(r.within - r.across, r) for r in rows(meaning)[2:] if r.within is not None]
    if not parted:
        return "Every group is one occurrence, so there is no cosine within one."
    gap, row = max(parted, key=lambda pair: pair[0])
    return (
        f"Furthest apart at {row.name}: {row.within:.2f} within the groups, {row.across:.2f} "
        f"across, {gap:.2f} between them."
    )


def _occurrence(meaning: Meaning, place: int, o: Occurrence) -> str:
    label = "" if meaning.senses is None else f" {clip(meaning.senses.labels[place], 20)}"
    before, word, behind = o.text[: o.start], o.text[o.start : o.end], o.text[o.end :]
    tail = before if len(before) <= 90 else f"...{before[-60:]}"
    shown = f"{tail}[{word}]{clip(behind, 60) if len(behind) > 90 else behind}"
    times = f", {o.number} of {o.of}" if o.of > 1 else ""
    pieces = "+".join(o.pieces[i] for i in o.own)
    return f"{place + 1:>3}{label}  {shown}  ({pieces}{times})"


def _charts(table: Sequence[LayerRow], names: Mapping[str, str]) -> Iterator[Chart]:
    """The cosines as they are, and less the mean."""
    step = max(1, len(table) // 8)
    ticks = tuple((float(at), _tick(table[at].name)) for at in range(0, len(table), step))
    for title, keys in (
        ("Cosine, as it is", [key for key in names if not key.startswith("centred")]),
        ("Cosine, less the mean of the other tokens", [k for k in names if k.startswith("centr")]),
    ):
        lines = tuple(
            ChartLine(
                key.removeprefix("centred_"),
                tuple((float(at), getattr(row, key)) for at, row in enumerate(table)),
                tuple(f"{row.name}: {getattr(row, key) or 0.0:.3f}" for row in table),
            )
            for key in keys
        )
        yield Chart(title, lines, ticks, low=0.0, high=1.0, form="{:.2f}")


def _tick(name: str) -> str:
    return {"final norm": "norm", "layer 0": "0"}.get(name, name.removeprefix("block "))


def _plot(layers: Table, names: Mapping[str, str], width: int) -> Iterator[str]:
    """The numbers, and beside or below them a plot of those that are not centred."""
    marks = {key: mark for key, mark in _MARKS.items() if key in names}
    if len(names) == len(PAIRED):
        marks["across"] = "o"

    def marked(row: object) -> dict[str, float | None]:
        return {mark: getattr(row, key) for key, mark in reversed(marks.items())}

    yield from plotted(layers, marked, width)
    said = ", ".join(f"{mark} {names[key]}" for key, mark in marks.items())
    yield from text_lines([f"Plotted: {said}"], width)


def plotted(
    table: Table, marks: Callable[[object], Mapping[str, float | None]], width: int
) -> Iterator[str]:
    """A table of layers with a further column: where each row's marks lie, from 0 or less to 1.

    The last of two marks in one place is seen.
    """
    known = [v for row in table.rows for v in marks(row).values() if v is not None]
    # From nothing to perfect, so that small steps look small.
    low = min(0.0, *known)
    room = width - sum(each.width for each in table.columns) - 2
    if room < _LEAST_PLOT:
        # No room beside the numbers: the plot stands below them.
        room = width - table.columns[0].width - 2

    def line(row: object) -> str:
        cells = [" "] * room
        for mark, value in marks(row).items():
            if value is not None:
                cells[round((value - low) / (1.0 - low) * (room - 1))] = mark
        return "".join(cells)

    # Of one length whatever stands in it, so that lines stay below each other.
    last = Column(f"{low:.1f}".ljust(room - 3) + "1.0", room, line, align="<")
    yield from text_lines([Table((*table.columns, last), table.rows)], width)


def _squares(meaning: Meaning, table: Sequence[LayerRow]) -> Iterator[Block]:
    """All pairs at the layer where the groups part furthest."""
    at = max(range(2, len(table)), key=lambda i: (table[i].within or 0.0) - table[i].across)
    layer, count = meaning.layers[at], min(len(meaning.occurrences), 10)
    yield f"Cosines at {layer.name}, as they are (below: less mean)"
    for square in (layer.cosines, layer.centred):
        if square is not None:
            numbers = [(i + 1, *square[i][:count]) for i in range(count)]
            yield Table((Column("", 4, align=">", key="occurrence"), *_numbered(count)), numbers)
    if count < len(meaning.occurrences):
        yield f"The first {count} of {len(meaning.occurrences)} occurrences; --json has all."


def _numbered(count: int) -> Iterator[Column]:
    for at in range(1, count + 1):
        yield Column(str(at), 7, itemgetter(at), "{:.2f}")
