"""Scores of a table, and of every layer of its model, as documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ropewalk.report.document import (
    Block,
    Chart,
    ChartLine,
    Column,
    Document,
    Prose,
    Table,
    on_page,
    plot,
)
from ropewalk.report.table_words import clipped
from ropewalk.report.text import clip, listed

if TYPE_CHECKING:
    from ropewalk.explain.layer_score import LayerScores
    from ropewalk.tables.score.benchmarks import AnalogyScore, PairScore

NAME = 30


def document(
    title: str,
    pairs: Sequence[PairScore],
    analogies: Sequence[AnalogyScore],
    used: Counter[str],
    *,
    fold: bool,
) -> Document:
    """The scores of a table: judged pairs, analogies, and how words were found."""
    blocks: list[Block] = [*_pairs(pairs), ""] if pairs else []
    for score in analogies:
        blocks += [_analogies(score), ""]
    blocks.append(_form(used, fold=fold))
    question = f"How well does the table of {title} know words?"
    return Document(f"{title}: scores", tuple(blocks), "ropewalk table score", question)


def layers_document(title: str, found: LayerScores) -> Document:
    """The scores of every layer of a model."""
    question = f"At which layer does {title} know words best?"
    blocks = tuple(_layer_blocks(found))
    return Document(f"{title}: scores by layer", blocks, "ropewalk table score", question)


def _pairs(scores: Sequence[PairScore]) -> Iterator[Block]:
    """Judged pairs: correlations and coverage, a line for each benchmark."""
    columns = (
        Column("judged pairs", NAME, lambda score: score.name, _name),
        Column("Spearman", 9, lambda score: score.spearman, "{:.3f}"),
        Column("Pearson", 9, lambda score: score.pearson, "{:.3f}"),
        Column("pairs", 14, lambda score: f"{score.used:,} of {score.total:,}"),
        Column("unknown", 10, lambda score: score.oov_ratio, "{:.1f}%"),
    )
    yield Table(columns, scores, key="pairs")
    for score in scores:
        yield from _words(score.name, score.missing, "no token of their own")
        yield from _words(score.name, score.no_direction, "rows of zeros, NaN or infinity")


def _analogies(score: AnalogyScore) -> Table:
    """Analogies: accuracy and coverage, a line for each section."""
    columns = (
        Column(clipped(f"{score.name}, 3CosAdd", NAME - 1), NAME, lambda each: each.name, _name,
               key="section"),
        Column("accuracy", 9, lambda each: each.accuracy, "{:.1%}"),
        Column("correct", 9, lambda each: each.correct, "{:,}"),
        Column("questions", 18, lambda each: f"{each.asked:,} of {each.total:,}"),
    )  # fmt: skip
    return Table(columns, (*score.sections, score.whole), key="analogies")


def _form(used: Counter[str], *, fold: bool) -> Prose:
    """Which spelling the words were found in, and whether case counted."""
    found = ", ".join(f"{count:,} {form}" for form, count in used.most_common())
    case = "case folded where needed" if fold else "case counts (--fold)"
    return _said(f"Words found: {found or 'none'}; {case}.")


def _layer_blocks(found: LayerScores) -> Iterator[Block]:
    """Spearman by layer, of the first benchmark as a plot; less the mean beside it."""
    names = [score.name for score in found.layers[0].scores]
    yield _said(
        f"Spearman by layer, each word put into {clip(found.frame, 60)!r}"
        f"{' (alone)' if found.frame == '{}' else ''}; of several tokens the "
        f"{found.pieces.value}. o as it is, + less the mean of all words."
    )
    yield _layer_table(found, names[:2])
    yield on_page(*(_chart(found, number, name) for number, name in enumerate(names)))
    if len(names) > 2:
        yield _said(f"The first two of {len(names)} benchmarks; --json has all.")
    for number, name in enumerate(names):
        yield _said(_verdict(found, number, name))


def _layer_table(found: LayerScores, names: Sequence[str]) -> Table:
    def of(kept: str, at: int) -> Callable[[Any], object]:
        return lambda layer: getattr(layer, kept)[at].spearman

    columns = [Column("layer", 11, lambda layer: layer.name)]
    for at, name in enumerate(names):
        columns += [
            Column(name[:10], 11, of("scores", at), "{:.3f}", key=name),
            Column("less mean", 10, of("centred", at), "{:.3f}", key=f"{name} less mean"),
        ]
    first = [s for layer in found.layers for s in (layer.scores[0], layer.centred[0])]
    # From nothing to perfect, so that small steps look small.
    low = min(0.0, *(score.spearman or 0.0 for score in first))

    plotted = plot(
        {"o": lambda each: each.scores[0].spearman, "+": lambda each: each.centred[0].spearman}, low
    )
    return Table([*columns, plotted], found.layers, less=(plotted.name,), key="layers")


def _chart(found: LayerScores, number: int, name: str) -> Chart:
    def line(said: str, kept: Callable[[Any], Any]) -> ChartLine:
        scores = [kept(layer)[number].spearman for layer in found.layers]
        return ChartLine(said, tuple((float(at), score) for at, score in enumerate(scores)))

    lines = (
        line("as it is", lambda layer: layer.scores),
        line("less the mean", lambda layer: layer.centred),
    )
    ends = ((0.0, found.layers[0].name), (float(len(found.layers) - 1), found.layers[-1].name))
    return Chart(f"{name}: Spearman by layer", lines, ends, low=0.0, high=1.0, form="{:.2f}")


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
    return f"{name}: the raw table has {_number(table)}; the best layer, {best}, {score:.3f}."


def _words(name: str, words: Sequence[str], why: str) -> Iterator[Block]:
    if words:
        first = listed((clip(word, 24) for word in words), 6)
        yield _said(f"{name}: {len(words):,} words have {why}: {first}")


def _name(name: str) -> str:
    return clipped(name, NAME - 1)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _said(text: str) -> Prose:
    return Prose(text, rest="  ")
