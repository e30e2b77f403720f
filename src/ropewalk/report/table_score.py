"""Scores of a table, and of every layer of its model, in a terminal of 80 columns."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ropewalk.report.text import clip, visible

if TYPE_CHECKING:
    from ropewalk.explain.layer_score import LayerScores
    from ropewalk.tables.score.analogies import AnalogyScore, Section
    from ropewalk.tables.score.pairs import PairScore

WIDTH = 80
NAME = 30


def pair_lines(scores: Sequence[PairScore]) -> Iterator[str]:
    """Judged pairs: correlations and coverage, a line for each benchmark."""
    yield f"{'judged pairs':<{NAME}}{'Spearman':>9}{'Pearson':>9}{'pairs':>14}{'unknown':>10}"
    for score in scores:
        covered = f"{score.used:,} of {score.total:,}"
        yield (
            f"{_name(score.name)}{_number(score.spearman):>9}{_number(score.pearson):>9}"
            f"{covered:>14}{score.oov_ratio:>9.1f}%"
        )
    for score in scores:
        yield from _words(score.name, score.missing, "no token of their own")
        yield from _words(score.name, score.no_direction, "rows of zeros, NaN or infinity")


def analogy_lines(score: AnalogyScore) -> Iterator[str]:
    """Analogies: accuracy and coverage, a line for each section."""
    yield f"{_name(score.name + ', 3CosAdd')}{'accuracy':>9}{'correct':>9}{'questions':>18}"
    for section in (*score.sections, score.whole):
        yield _section(section)


def form_line(used: Counter[str], *, fold: bool) -> Iterator[str]:
    """Which spelling the words were found in, and whether case counted."""
    found = ", ".join(f"{count:,} {form}" for form, count in used.most_common())
    case = "case folded where needed" if fold else "case counts (--fold)"
    yield from _wrapped(f"Words found: {found or 'none'}; {case}.")


def layer_lines(found: LayerScores) -> Iterator[str]:
    """Spearman by layer, of the first benchmark as a plot; less the mean beside it."""
    names = [score.name for score in found.layers[0].scores]
    yield from _wrapped(
        f"Spearman by layer, each word put into {visible(repr(clip(found.frame, 60)))}"
        f"{' (alone)' if found.frame == '{}' else ''}; of several tokens the "
        f"{found.pieces.value}. o as it is, + less the mean of all words."
    )
    columns = "".join(f"{visible(clip(n, 10))[:10]:>11}{'less mean':>10}" for n in names[:2])
    width = WIDTH - 11 - 21 * min(len(names), 2) - 2
    values = [
        s.spearman or 0.0 for layer in found.layers for s in (layer.scores[0], layer.centred[0])
    ]
    # From nothing to perfect, so that small steps look small.
    low = min(0.0, *values)
    scale = f"{low:.1f}".ljust(width - 3) + "1.0"
    yield f"{'layer':<11}{columns}  {scale}"
    for layer in found.layers:
        numbers = "".join(
            f"{_number(a.spearman):>11}{_number(b.spearman):>10}"
            for a, b in list(zip(layer.scores, layer.centred, strict=True))[:2]
        )
        cells = [" "] * width
        for mark, score in (("+", layer.centred[0]), ("o", layer.scores[0])):
            if score.spearman is not None:
                cells[round((score.spearman - low) / (1.0 - low) * (width - 1))] = mark
        yield f"{layer.name:<11}{numbers}  {''.join(cells)}".rstrip()
    if len(names) > 2:
        yield from _wrapped(f"The first two of {len(names)} benchmarks; --json has all.")
    for number, name in enumerate(names):
        yield from _wrapped(_verdict(found, number, name))


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


def _section(section: Section) -> str:
    accuracy = "-" if section.accuracy is None else f"{section.accuracy:.1%}"
    covered = f"{section.asked:,} of {section.total:,}"
    return f"{_name(section.name)}{accuracy:>9}{section.correct:>9,}{covered:>18}"


def _words(name: str, words: Sequence[str], why: str) -> Iterator[str]:
    if words:
        listed = ", ".join(visible(clip(word, 24)) for word in words[:6])
        more = ", ..." if len(words) > 6 else ""
        yield from _wrapped(f"{visible(name)}: {len(words):,} words have {why}: {listed}{more}")


def _name(name: str) -> str:
    return f"{visible(name)[: NAME - 1]:<{NAME}}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
