"""Analogies by 3CosAdd: the row nearest to unit b + unit c - unit a, exact over the whole table.

(Mikolov, Yih and Zweig, "Linguistic regularities in continuous space word representations", NAACL
2013, section 4.) The question's words are no answers, in any spelling: in a table that has "king",
" king" and "King", the nearest row to a word is mostly another spelling of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.near import neighbours, unit_rows
from ropewalk.tables.score.datasets import AnalogySet, Question
from ropewalk.tables.score.lookup import Lookup

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

_AT_ONCE = 4096
"""Questions whose answers are looked for in one pass over the table."""


@short
@dataclass(frozen=True, slots=True)
class Section:
    """Of `total` questions `asked` have all four words, and `correct` of those were answered."""

    name: str
    correct: int
    asked: int
    total: int

    @property
    def accuracy(self) -> float | None:
        """Of those that were asked; None for none."""
        return self.correct / self.asked if self.asked else None


@short
@dataclass(frozen=True, slots=True)
class AnalogyScore:
    """All sections in the file's order. `correct` holds the questions that were answered."""

    name: str
    source: str
    sections: tuple[Section, ...]
    correct: tuple[Question, ...]

    @property
    def whole(self) -> Section:
        """All sections as one."""
        one, two, three = (
            sum(getattr(s, part) for s in self.sections) for part in ("correct", "asked", "total")
        )
        return Section("all", one, two, three)


def score_analogies(
    table: EmbeddingTable,
    analogies: AnalogySet,
    lookup: Lookup,
    *,
    share: Callable[[int, int], None] = lambda _done, _total: None,
) -> AnalogyScore:
    """Answer every question whose four words have a row; words in pieces have none here.

    `share` is told how many questions of how many are done. Raises UsageError where none can be
    asked.
    """
    directed = _with_direction(table)
    asked = [q for q in analogies.questions if _rows(q, lookup, directed) is not None]
    if not asked:
        raise UsageError(
            f"none of the {len(analogies.questions)} questions of {analogies.source} has its four "
            "words in the vocabulary; folding case or another spelling may find them"
        )
    correct: list[Question] = []
    for start in range(0, len(asked), _AT_ONCE):
        correct += _answered(table, asked[start : start + _AT_ONCE], lookup, directed)
        share(min(start + _AT_ONCE, len(asked)), len(asked))
    return AnalogyScore(
        analogies.name,
        analogies.source,
        tuple(_sections(analogies.questions, asked, correct)),
        tuple(correct),
    )


def _answered(
    table: EmbeddingTable, questions: Sequence[Question], lookup: Lookup, among: Tensor
) -> Iterator[Question]:
    """Those of the questions whose nearest row spells the expected word."""
    rows = [found for q in questions if (found := _rows(q, lookup, among)) is not None]
    different = sorted({row for three in rows for row in three})
    place = {row: at for at, row in enumerate(different)}
    units = unit_rows(table[different])
    a, b, c = ([place[three[i]] for three in rows] for i in range(3))
    taken = [
        sorted({row for word in (q.a, q.b, q.c) for row in lookup.any_case(word)} | set(three))
        for q, three in zip(questions, rows, strict=True)
    ]
    queries = units[b] + units[c] - units[a]
    # Unit rows may cancel out, to the rounding of float32; what has no direction has no answer.
    led = [i for i, length in enumerate(queries.norm(dim=1).tolist()) if length > 1e-6]
    if not led:
        return
    nearest = neighbours(table, queries[led], 1, exclude=[taken[i] for i in led], among=among)
    for at, row in zip(led, nearest.ids[:, 0].tolist(), strict=True):
        if row in lookup.same_word(questions[at].expected):
            yield questions[at]


def _rows(question: Question, lookup: Lookup, directed: Tensor) -> tuple[int, int, int] | None:
    """Rows of a, b and c, where these and the expected word have one with a direction."""
    found = [lookup(word) for word in (question.a, question.b, question.c, question.expected)]
    rows = [f.rows[0] for f in found if f is not None and len(f.rows) == 1]
    if len(rows) < 4 or not all(bool(directed[row]) for row in rows):
        return None
    return rows[0], rows[1], rows[2]


def _with_direction(table: EmbeddingTable) -> Tensor:
    """Which rows (rows,) stand for a token and have a direction."""
    import torch

    fine = torch.zeros(table.rows, dtype=torch.bool)
    for start, rows in table.tiles():
        peak = rows.double().abs().amax(dim=1)
        fine[start : start + len(rows)] = (peak > 0) & torch.isfinite(peak)
    vocabulary = table.vocabulary
    if vocabulary is not None:
        tokens = [t is not None for t in vocabulary.tokens[: table.rows]]
        fine &= torch.tensor(tokens + [False] * (table.rows - len(tokens)))
    return fine


def _sections(
    questions: Sequence[Question], asked: Sequence[Question], correct: Sequence[Question]
) -> Iterator[Section]:
    names = list(dict.fromkeys(q.section for q in questions))
    for name in names:
        counts = (sum(q.section == name for q in part) for part in (correct, asked, questions))
        yield Section(name, *counts)
