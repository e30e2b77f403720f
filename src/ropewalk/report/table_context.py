"""A word's meanings, layer by layer, in a terminal.

With two occurrences each layer has one cosine; with more, the mean within the groups and the mean
across them. Everything of the sentences and the tokenizer goes through `visible`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.report.layout import Drawn, Piece, Prose, Table, lines
from ropewalk.report.text import clip, visible
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
class Row:
    """A layer in numbers: cosines as they are and centred. None where there is no such pair."""

    name: str
    within: float | None
    across: float
    others: float | None
    centred_within: float | None
    centred_across: float | None


def rows(meaning: Meaning) -> tuple[Row, ...]:
    """Every layer's numbers. With two occurrences their one cosine counts as across."""
    return tuple(_row(meaning, layer) for layer in meaning.layers)


def _row(meaning: Meaning, layer: LayerCosines) -> Row:
    if meaning.senses is None:
        centred = None if layer.centred is None else layer.centred[0][1]
        return Row(layer.name, None, layer.cosines[0][1], layer.others, None, centred)
    senses = meaning.senses
    return Row(
        layer.name,
        senses.within(layer.cosines),
        senses.across(layer.cosines),
        layer.others,
        None if layer.centred is None else senses.within(layer.centred),
        None if layer.centred is None else senses.across(layer.centred),
    )


@short
@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, and the mark of its numbers in the plot; "" is not plotted."""

    head: str
    field: str
    mark: str = ""
    words: str = ""

    def of(self, row: Row) -> float | None:
        """The row's number."""
        value: float | None = getattr(row, self.field)
        return value


PAIRED = (
    Column("cosine", "across", "o", "cosine"),
    Column("others", "others", ".", "others"),
    Column(" less mean", "centred_across"),
)
GROUPED = (
    Column("within", "within", "o", "within the groups"),
    Column("across", "across", "x", "across them"),
    Column("others", "others", ".", "others"),
    Column("within", "centred_within"),
    Column("across", "centred_across"),
)
"""With two occurrences, and with groups of more."""


def context_lines(meaning: Meaning, width: int = WIDTH) -> Iterator[str]:
    """The whole answer, line by line, in ASCII but for the sentences; in `width` columns, WIDTH
    at most.
    """
    yield from lines(_pieces(meaning), min(width, WIDTH))


def _pieces(meaning: Meaning) -> Iterator[Piece]:
    yield from _wrapped(visible(f"{meaning.word!r} in {meaning.name}"))
    for place, occurrence in enumerate(meaning.occurrences):
        yield from _wrapped(_occurrence(meaning, place, occurrence), hang=6)
    yield ""
    table, paired = rows(meaning), meaning.senses is None
    yield Drawn(lambda width: _plot(table, width, paired=paired))
    if len(meaning.occurrences) > 2:
        yield ""
        yield from _matrix(meaning)
    yield ""
    for note in notes(meaning):
        yield from _wrapped(note)


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
        yield (
            f"others: the mean cosine of pairs among {meaning.others:,} other tokens of the "
            f"sentences{more}; a cosine no higher says nothing. less mean: after their mean state "
            "is taken away."
        )
    else:
        yield "The sentences hold no other tokens, so nothing tells how alike any two states are."
    pieces = {tuple(o.pieces[i] for i in o.own) for o in meaning.occurrences}
    if len(pieces) > 1:
        listed = ", ".join(visible("+".join(p)) for p in sorted(pieces))
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
    label = "" if meaning.senses is None else f" {visible(clip(meaning.senses.labels[place], 20))}"
    before, word, behind = o.text[: o.start], o.text[o.start : o.end], o.text[o.end :]
    shown = f"{_tail(before)}[{word}]{clip(behind, 60) if len(behind) > 90 else behind}"
    times = f", {o.number} of {o.of}" if o.of > 1 else ""
    pieces = "+".join(o.pieces[i] for i in o.own)
    return f"{place + 1:>3}{label}  {visible(shown)}  ({visible(pieces)}{times})"


def _tail(text: str) -> str:
    return text if len(text) <= 90 else f"...{text[-60:]}"


def _plot(table: tuple[Row, ...], width: int, *, paired: bool) -> Iterator[str]:
    values = [v for r in table for v in (r.within, r.across, r.others) if v is not None]
    low = min(0.0, *values)
    columns = PAIRED if paired else GROUPED
    room = width - _LAYER - sum(len(f"{c.head:>7}") for c in columns) - 2
    if room < _LEAST_PLOT:
        # No room beside the numbers: the plot stands below them.
        room = width - _LAYER - 2
    heads = [f"{c.head:>7}" for c in columns]
    groups = [" " * _LAYER, f"{'------ cosine -----':>21}", f"{'- less mean -':>14}"]
    if not paired:
        heads = ["".join(heads[:3]), "".join(heads[3:])]
    scale = f"  {f'{low:.1f}'.ljust(room - 3)}1.0"
    lined = [[f"{'layer':<{_LAYER}}", *heads, scale]]
    for row in table:
        numbers = [_number(c.of(row), len(f"{c.head:>7}")) for c in columns]
        if not paired:
            numbers = ["".join(numbers[:3]), "".join(numbers[3:])]
        marks = {c.mark: c.of(row) for c in reversed(columns) if c.mark}
        lined.append([f"{row.name:<{_LAYER}}", *numbers, f"  {_line(marks, low, room)}"])
    yield from lines([Table(lined if paired else [groups, *lined])], width)
    plotted = ", ".join(f"{c.mark} {c.words}" for c in columns if c.mark)
    yield from lines([f"Plotted: {plotted}"], width)


def _number(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.2f}"


def _line(marks: dict[str, float | None], low: float, width: int) -> str:
    cells = [" "] * width
    for mark, value in marks.items():
        if value is not None:
            cells[round((value - low) / (1.0 - low) * (width - 1))] = mark
    return "".join(cells)


def _matrix(meaning: Meaning) -> Iterator[Piece]:
    """All pairs at the layer where the groups part furthest."""
    table = rows(meaning)
    at = max(range(2, len(table)), key=lambda i: (table[i].within or 0.0) - table[i].across)
    layer, count = meaning.layers[at], min(len(meaning.occurrences), 10)
    yield f"Cosines at {layer.name}, as they are (below: less mean)"
    for square in (layer.cosines, layer.centred):
        if square is None:
            continue
        heads = ["    ", *(f"{j + 1:>7}" for j in range(count))]
        numbers = [
            [f"{i + 1:>4}", *(f"{square[i][j]:>7.2f}" for j in range(count))] for i in range(count)
        ]
        yield Table([heads, *numbers])
    if count < len(meaning.occurrences):
        yield f"The first {count} of {len(meaning.occurrences)} occurrences; --json has all."


def _wrapped(text: str, hang: int = 0) -> Iterator[Piece]:
    yield Prose(text, rest=" " * hang)
