"""Scores of a table, and of every layer of its model, as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ropewalk.report.document import (
    Block,
    Chart,
    ChartLine,
    Column,
    Document,
    Drawn,
    Prose,
    Table,
    in_terminal,
    on_page,
)
from ropewalk.report.table_context import plotted
from ropewalk.report.text import clip, cut
from ropewalk.short import short
from ropewalk.tables.score.benchmarks import TableScores

if TYPE_CHECKING:
    from ropewalk.explain.layer_score import LayerScores
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.score.benchmarks import AnalogyScore, AnalogySection, PairScore

WIDTH, NAME = 80, 30
_LAYER = 11
"""Cells of a layer's name."""


def document(found: TableScores | LayerScores) -> Document:
    """A table's scores, or every layer's beside the table's."""
    blocks = _table(found) if isinstance(found, TableScores) else _layers(found)
    question = "How well do these rows tell which words are alike?"
    title = f"scores of {found.name}"
    return Document(title, tuple(blocks), "ropewalk table score", question, WIDTH)


def values(
    found: TableScores | LayerScores, table: EmbeddingTable | None = None
) -> dict[str, object]:
    """The same as plain values."""
    if isinstance(found, TableScores):
        about = table and {"tensor": table.name, "shape": table.shape, "view": table.view}
        return {
            "table": about,
            "spelling": found.spelling,
            "fold": found.fold,
            "found": dict(found.used),
            "pairs": [_pair_values(score) for score in found.pairs],
            "analogies": [_analogy_values(score) for score in found.analogies],
        }
    layers = [
        {
            "name": layer.name,
            "pairs": [_pair_values(score) for score in layer.scores],
            "less_mean": [_pair_values(score) for score in layer.centred],
        }
        for layer in found.layers
    ]
    about = {"model": found.name, "frame": found.frame, "pieces": found.pieces.value}
    return {**about, "layers": layers}


def _pair_values(score: PairScore) -> dict[str, object]:
    return {**asdict(score), "oov_ratio": score.oov_ratio}


def _analogy_values(score: AnalogyScore) -> dict[str, object]:
    sections = [
        {**asdict(section), "accuracy": section.accuracy}
        for section in (*score.sections, score.whole)
    ]
    return {"name": score.name, "source": score.source, "sections": sections}


def _table(found: TableScores) -> Iterator[Block]:
    """Correlations and coverage, a line for each benchmark; accuracy, one for each section."""
    if found.pairs:
        columns = (
            Column("judged pairs", NAME, attrgetter("name"), _name),
            Column("Spearman", 9, attrgetter("spearman"), "{:.3f}"),
            Column("Pearson", 9, attrgetter("pearson"), "{:.3f}"),
            Column("pairs", 14, _used, key="used"),
            Column("unknown", 10, attrgetter("oov_ratio"), "{:.1f}%"),
        )
        yield Table(columns, found.pairs, key="pairs")
        for score in found.pairs:
            yield from _words(score.name, score.missing, "no token of their own")
            yield from _words(score.name, score.no_direction, "rows of zeros, NaN or infinity")
        yield ""
    for answered in found.analogies:
        heads = (
            Column(_name(answered.name + ", 3CosAdd"), NAME, attrgetter("name"), _name, key="name"),
            Column("accuracy", 9, attrgetter("accuracy"), "{:.1%}"),
            Column("correct", 9, attrgetter("correct"), "{:,}"),
            Column("questions", 18, _asked),
        )
        yield Table(heads, (*answered.sections, answered.whole), key="analogies")
        yield ""
    listed = ", ".join(f"{count:,} {form}" for form, count in found.used.most_common())
    case = "case folded where needed" if found.fold else "case counts (--fold)"
    yield _prose(f"Words found: {listed or 'none'}; {case}.")


def _used(score: PairScore) -> str:
    return f"{score.used:,} of {score.total:,}"


def _asked(section: AnalogySection) -> str:
    return f"{section.asked:,} of {section.total:,}"


@short
@dataclass(frozen=True, slots=True)
class ScoredLayer:
    """A layer's Spearman on the first two benchmarks, as it is and less the mean of all words."""

    name: str
    scores: tuple[float | None, ...]
    centred: tuple[float | None, ...]


def _layers(found: LayerScores) -> Iterator[Block]:
    """Spearman by layer, of the first benchmark as a plot; less the mean beside it."""
    names = [score.name for score in found.layers[0].scores]
    yield _prose(
        f"Spearman by layer, each word put into {clip(found.frame, 60)!r}"
        f"{' (alone)' if found.frame == '{}' else ''}; of several tokens the "
        f"{found.pieces.value}. o as it is, + less the mean of all words."
    )
    rows = [
        ScoredLayer(
            layer.name,
            tuple(score.spearman for score in layer.scores),
            tuple(score.spearman for score in layer.centred),
        )
        for layer in found.layers
    ]
    columns = [Column("layer", _LAYER, attrgetter("name")), *_columns(names[:2])]
    layers = Table(columns, rows, key="layers")
    yield in_terminal(Drawn(lambda width: plotted(layers, _marks, width)))
    yield on_page(_chart(rows, names[0]), layers)
    if len(names) > 2:
        yield _prose(f"The first two of {len(names)} benchmarks; --json has all.")
    for number, name in enumerate(names):
        yield _prose(_verdict(found, number, name))


def _columns(names: Sequence[str]) -> Iterator[Column]:
    for at, name in enumerate(names):

        def plain(row: ScoredLayer, at: int = at) -> float | None:
            return row.scores[at]

        def centred(row: ScoredLayer, at: int = at) -> float | None:
            return row.centred[at]

        yield Column(cut(name, 10), 11, plain, "{:.3f}", key=name)
        yield Column("less mean", 10, centred, "{:.3f}", key=f"{name} less mean")


def _marks(row: object) -> Mapping[str, float | None]:
    assert isinstance(row, ScoredLayer)  # noqa: S101 - the table's rows are these
    return {"+": row.centred[0], "o": row.scores[0]}


def _chart(rows: Sequence[ScoredLayer], name: str) -> Chart:
    step = max(1, len(rows) // 8)
    ticks = tuple((float(at), rows[at].name) for at in range(0, len(rows), step))
    lines = (
        ChartLine("as it is", tuple((float(at), r.scores[0]) for at, r in enumerate(rows))),
        ChartLine("less mean", tuple((float(at), r.centred[0]) for at, r in enumerate(rows))),
    )
    return Chart(f"Spearman on {name}", lines, ticks, low=0.0, high=1.0, form="{:.2f}")


def _verdict(found: LayerScores, number: int, name: str) -> str:
    """The raw table beside the best layer, in words."""
    table = found.layers[0].scores[number].spearman
    best, score = max(
        (
            (f"{layer.name}{extra}", scores[number].spearman or -1.0)
            for layer in found.layers[1:]
            for extra, scores in (("", layer.scores), (" less the mean", layer.centred))
        ),
        key=lambda pair: pair[1],
    )
    raw = "-" if table is None else f"{table:.3f}"
    return f"{name}: the raw table has {raw}; the best layer, {best}, {score:.3f}."


def _words(name: str, words: Sequence[str], why: str) -> Iterator[Block]:
    if words:
        listed = ", ".join(clip(word, 24) for word in words[:6])
        more = ", ..." if len(words) > 6 else ""
        yield _prose(f"{name}: {len(words):,} words have {why}: {listed}{more}")


def _name(name: str) -> str:
    return cut(name, NAME - 1)


def _prose(text: str) -> Prose:
    return Prose(text, rest="  ", hyphens=False)
