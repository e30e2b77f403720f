"""A word's meanings, layer by layer, as a document.

With two occurrences each layer has one cosine; with more, the mean within the groups and the mean
across them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ropewalk.report.document import (
    Block,
    Chart,
    ChartLine,
    Column,
    Document,
    Heading,
    Prose,
    Table,
    in_terminal,
    on_page,
    plot,
)
from ropewalk.report.text import clip
from ropewalk.short import short

if TYPE_CHECKING:
    from ropewalk.explain.meaning import LayerCosines, Meaning
    from ropewalk.explain.occurrences import Occurrence


@short
@dataclass(frozen=True, slots=True)
class LayerMeaning:
    """A layer in numbers: cosines as they are and centred. None where there is no such pair."""

    name: str
    within: float | None
    across: float
    others: float | None
    centred_within: float | None
    centred_across: float | None


def rows(meaning: Meaning) -> tuple[LayerMeaning, ...]:
    """Every layer's numbers. With two occurrences their one cosine counts as across."""
    return tuple(_row(meaning, layer) for layer in meaning.layers)


def _row(meaning: Meaning, layer: LayerCosines) -> LayerMeaning:
    if meaning.senses is None:
        centred = None if layer.centred is None else layer.centred[0][1]
        return LayerMeaning(layer.name, None, layer.cosines[0][1], layer.others, None, centred)
    senses = meaning.senses
    return LayerMeaning(
        layer.name,
        senses.within(layer.cosines),
        senses.across(layer.cosines),
        layer.others,
        None if layer.centred is None else senses.within(layer.centred),
        None if layer.centred is None else senses.across(layer.centred),
    )


def document(meaning: Meaning) -> Document:
    """The sentences, each layer's cosines with a plot, and what to beware of."""
    title = f"{meaning.word} in {meaning.name}, layer by layer"
    question = f"Where does {meaning.name} pull the meanings of \u201c{meaning.word}\u201d apart?"
    return Document(title, tuple(_blocks(meaning)), "ropewalk table context", question)


def _blocks(meaning: Meaning) -> Iterator[Block]:
    yield Prose(f"{meaning.word!r} in {meaning.name}", rest="")
    for place, occurrence in enumerate(meaning.occurrences):
        yield Prose(_occurrence(meaning, place, occurrence), rest=" " * 6)
    yield ""
    yield on_page(*_charts(meaning), Heading("Layer by layer"))
    yield from _layers(meaning)
    if len(meaning.occurrences) > 2:
        yield ""
        yield from _matrix(meaning)
    yield ""
    yield from map(Prose, notes(meaning))


def _layers(meaning: Meaning) -> Iterator[Block]:
    """One line per layer; in a terminal with room, the plot stands beside the numbers."""
    table, paired = rows(meaning), meaning.senses is None

    def column(head: str, name: str) -> Column:
        return Column(head, 8, attrgetter(name), "{:.2f}", key=name)

    columns = [Column("layer", 11, lambda row: row.name)]
    if paired:
        columns += [column("cosine", "across"), column("others", "others")]
        columns.append(column("less mean", "centred_across"))
        marks = {"o": "across", ".": "others"}
        words = "o cosine, . others"
    else:
        columns += [column(name, name) for name in ("within", "across", "others")]
        columns += [column("within -", "centred_within"), column("across -", "centred_across")]
        marks = {"o": "within", "x": "across", ".": "others"}
        words = "o within the groups, x across them, . others; -: less mean"
    values = [v for row in table for v in (row.within, row.across, row.others) if v is not None]
    low = min(0.0, *values)
    plotted = plot({mark: attrgetter(name) for mark, name in marks.items()}, low)
    shown = Table([*columns, plotted], table, less=(plotted.name,))
    yield in_terminal(shown, f"Plotted: {words}")
    yield on_page(Table(columns, table, key="layers"))


def _charts(meaning: Meaning) -> tuple[Chart, Chart]:
    """The cosines as they are, and less the mean."""
    table, paired = rows(meaning), meaning.senses is None
    across = "the two occurrences" if paired else "across the groups"
    groups = [] if paired else ["within"]

    def chart(title: str, names: Sequence[tuple[str, str]]) -> Chart:
        lines = [_line(table, name, said) for name, said in names]
        ends = (0, len(table) // 2, len(table) - 1)
        ticks = tuple((float(at), table[at].name) for at in sorted(set(ends)))
        values = [y for line in lines for _, y in line.points if y is not None]
        low = min(0.0, *values) if values else 0.0
        return Chart(title, tuple(lines), ticks, low=low, high=1.0, form="{:.2f}")

    said = {"within": "within the groups", "across": across, "others": "other tokens"}
    whole = [(name, said[name]) for name in (*groups, "across", "others")]
    centred = [(f"centred_{name}", said[name]) for name in (*groups, "across")]
    return (
        chart("Cosine, as it is", whole),
        chart("Cosine, less the mean of the other tokens", centred),
    )


def _line(table: Sequence[LayerMeaning], name: str, said: str) -> ChartLine:
    points: list[tuple[float, float | None]] = [
        (float(at), getattr(row, name)) for at, row in enumerate(table)
    ]
    tips = tuple(
        "" if y is None else f"{row.name}: {said} {y:.3f}"
        for row, (_, y) in zip(table, points, strict=True)
    )
    return ChartLine(said, tuple(points), tips)


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
    shown = f"{_tail(before)}[{word}]{clip(behind, 60) if len(behind) > 90 else behind}"
    times = f", {o.number} of {o.of}" if o.of > 1 else ""
    pieces = "+".join(o.pieces[i] for i in o.own)
    return f"{place + 1:>3}{label}  {shown}  ({pieces}{times})"


def _tail(text: str) -> str:
    return text if len(text) <= 90 else f"...{text[-60:]}"


def _matrix(meaning: Meaning) -> Iterator[Block]:
    """All pairs at the layer where the groups part furthest."""
    table = rows(meaning)
    at = max(range(2, len(table)), key=lambda i: (table[i].within or 0.0) - table[i].across)
    layer, count = meaning.layers[at], min(len(meaning.occurrences), 10)
    yield f"Cosines at {layer.name}, as they are (below: less mean)"
    for square in (layer.cosines, layer.centred):
        if square is None:
            continue
        columns = [Column("", 4, lambda row: row[0], align=">", key="occurrence")]
        columns += [Column(str(at + 1), 7, _cell(at), "{:.2f}") for at in range(count)]
        yield Table(columns, [(i + 1, square[i]) for i in range(count)], key="cosines")
    if count < len(meaning.occurrences):
        yield f"The first {count} of {len(meaning.occurrences)} occurrences; --json has all."


def _cell(at: int) -> Callable[[tuple[int, Sequence[float]]], float]:
    return lambda row: row[1][at]
