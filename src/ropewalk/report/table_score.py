"""Scores of a table, and of every layer of its model, in a terminal of 80 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ropewalk.report.layout import Drawn, Piece, Prose, Table, fit, lines
from ropewalk.report.text import clip, visible

if TYPE_CHECKING:
    from ropewalk.explain.layer_score import LayerScores
    from ropewalk.tables.score.benchmarks import AnalogyScore, AnalogySection, PairScore

WIDTH = 80
NAME = 30
_LAYER = 11
"""Cells of a layer's name."""
_LEAST_PLOT = 16


def pair_lines(scores: Sequence[PairScore]) -> Iterator[Piece]:
    """Judged pairs: correlations and coverage, a line for each benchmark."""
    heads = (f"{'Spearman':>9}", f"{'Pearson':>9}", f"{'pairs':>14}", f"{'unknown':>10}")
    table = [(f"{'judged pairs':<{NAME}}", *heads)]
    for score in scores:
        covered = f"{score.used:,} of {score.total:,}"
        figures = (f"{_number(score.spearman):>9}", f"{_number(score.pearson):>9}")
        table.append((_name(score.name), *figures, f"{covered:>14}", f"{score.oov_ratio:>9.1f}%"))
    yield Table(table)
    for score in scores:
        yield from _words(score.name, score.missing, "no token of their own")
        yield from _words(score.name, score.no_direction, "rows of zeros, NaN or infinity")


def analogy_lines(score: AnalogyScore) -> Iterator[Piece]:
    """Analogies: accuracy and coverage, a line for each section."""
    heads = (f"{'accuracy':>9}", f"{'correct':>9}", f"{'questions':>18}")
    table = [(_name(score.name + ", 3CosAdd"), *heads)]
    yield Table([*table, *map(_section, (*score.sections, score.whole))])


def form_line(used: Counter[str], *, fold: bool) -> Iterator[Piece]:
    """Which spelling the words were found in, and whether case counted."""
    found = ", ".join(f"{count:,} {form}" for form, count in used.most_common())
    case = "case folded where needed" if fold else "case counts (--fold)"
    yield from _wrapped(f"Words found: {found or 'none'}; {case}.")


def layer_lines(found: LayerScores) -> Iterator[Piece]:
    """Spearman by layer, of the first benchmark as a plot; less the mean beside it."""
    names = [score.name for score in found.layers[0].scores]
    yield from _wrapped(
        f"Spearman by layer, each word put into {visible(repr(clip(found.frame, 60)))}"
        f"{' (alone)' if found.frame == '{}' else ''}; of several tokens the "
        f"{found.pieces.value}. o as it is, + less the mean of all words."
    )
    yield Drawn(lambda width: _layers(found, names, width))
    if len(names) > 2:
        yield from _wrapped(f"The first two of {len(names)} benchmarks; --json has all.")
    for number, name in enumerate(names):
        yield from _wrapped(_verdict(found, number, name))


def _layers(found: LayerScores, names: Sequence[str], width: int) -> Iterator[str]:
    """The layers' numbers, and beside or below them the plot of the first benchmark."""
    heads = [f"{visible(clip(n, 10))[:10]:>11}{'less mean':>10}" for n in names[:2]]
    room = width - _LAYER - 21 * len(heads) - 2
    if room < _LEAST_PLOT:
        room = width - _LAYER - 2
    values = [
        s.spearman or 0.0 for layer in found.layers for s in (layer.scores[0], layer.centred[0])
    ]
    # From nothing to perfect, so that small steps look small.
    low = min(0.0, *values)
    scale = f"  {f'{low:.1f}'.ljust(room - 3)}1.0"
    table = [[f"{'layer':<{_LAYER}}", *heads, scale]]
    for layer in found.layers:
        numbers = [
            f"{_number(a.spearman):>11}{_number(b.spearman):>10}"
            for a, b in list(zip(layer.scores, layer.centred, strict=True))[:2]
        ]
        cells = [" "] * room
        for mark, score in (("+", layer.centred[0]), ("o", layer.scores[0])):
            if score.spearman is not None:
                cells[round((score.spearman - low) / (1.0 - low) * (room - 1))] = mark
        table.append([f"{layer.name:<{_LAYER}}", *numbers, f"  {''.join(cells)}"])
    yield from lines([Table(table)], width)


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
    return (
        f"{visible(name)}: the raw table has {_number(table)}; the best layer, {best}, {score:.3f}."
    )


def _section(section: AnalogySection) -> tuple[str, ...]:
    accuracy = "-" if section.accuracy is None else f"{section.accuracy:.1%}"
    covered = f"{section.asked:,} of {section.total:,}"
    figures = (f"{accuracy:>9}", f"{section.correct:>9,}", f"{covered:>18}")
    return (_name(section.name), *figures)


def _words(name: str, words: Sequence[str], why: str) -> Iterator[Piece]:
    if words:
        listed = ", ".join(visible(clip(word, 24)) for word in words[:6])
        more = ", ..." if len(words) > 6 else ""
        yield from _wrapped(f"{visible(name)}: {len(words):,} words have {why}: {listed}{more}")


def _name(name: str) -> str:
    return f"{fit(visible(name), NAME - 1)} "


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _wrapped(text: str) -> Iterator[Piece]:
    yield Prose(text, rest="  ")
