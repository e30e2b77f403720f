"""A question about nearness put to an opened table, and everything that the answer has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.short import short
from ropewalk.tables.analogy import cos_add, cos_mul
from ropewalk.tables.search import Found, check_k, search, unit_rows
from ropewalk.tables.words import Asked

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable


@short
@dataclass(frozen=True, slots=True)
class Question:
    """One thing asked for, with what is added to it and taken from it; `by_product` is 3CosMul."""

    of: Asked
    plus: tuple[Asked, ...] = ()
    minus: tuple[Asked, ...] = ()
    by_product: bool = False

    @property
    def inputs(self) -> tuple[Asked, ...]:
        """All that was named; none of their rows is an answer."""
        return (self.of, *self.plus, *self.minus)

    @property
    def ids(self) -> tuple[int, ...]:
        """The rows of all inputs, each once, ascending."""
        return tuple(sorted({row for asked in self.inputs for row in asked.ids}))


@short
@dataclass(frozen=True, slots=True)
class Answer:
    """The rows nearest to what a question asks for, best first, as (id, score)."""

    question: Question
    found: tuple[tuple[int, float], ...]


@short
@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to several questions, and what was left out of all of them.

    `compared` counts the rows that were; `bare` those left out for having no token; `zero` and
    `not_finite` are the rows left out for having no direction.
    """

    answers: tuple[Answer, ...]
    compared: int
    bare: int
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]


def answer(
    table: EmbeddingTable, questions: Sequence[Question], k: int, *, all_rows: bool = False
) -> Answers:
    """The `k` rows nearest to each question, in one pass over the table where all are plain.

    Rows without a token are compared with `all_rows` alone. Raises UsageError for a `k` that
    cannot be and for inputs without direction.
    """
    check_k(k, table.rows)
    if not questions:
        raise UsageError("nothing was asked; give a word, --id or --text")
    among = None if all_rows else with_token(table)
    bare = 0 if among is None else table.rows - int(among.sum())
    plain = [q for q in questions if not (q.plus or q.minus)]
    pages = table.pages()
    source = table if pages is None else pages
    near: Found | None = None
    found: list[list[tuple[int, float]]] = []
    if plain:
        vectors = np.stack([q.of.vector(table, pages) for q in plain])
        near = search(source, vectors, k, exclude=[q.ids for q in plain], among=among)
    for question in questions:
        if question.plus or question.minus:
            one = _analogy(table, pages, question, k, among)
            found.append(one.of(0))
        else:
            assert near is not None  # noqa: S101 - a plain question is there
            one = near
            found.append(near.of(plain.index(question)))
    answers = tuple(Answer(q, tuple(f)) for q, f in zip(questions, found, strict=True))
    return Answers(answers, one.ranked, bare, one.zero, one.not_finite)


def with_token(table: EmbeddingTable) -> Array | None:
    """Which rows (rows,) have a token, or a position; None where that is not known of any."""
    if table.role == "positions":
        return np.arange(table.rows) >= table.position_offset
    if table.vocabulary is None:
        return None
    tokens = table.vocabulary.tokens[: table.rows]
    mask = np.zeros(table.rows, np.bool_)
    mask[: len(tokens)] = [token is not None for token in tokens]
    return mask


def _analogy(
    table: EmbeddingTable, pages: Array | None, question: Question, k: int, among: Array | None
) -> Found:
    plus = np.stack([a.vector(table, pages) for a in (question.of, *question.plus)])
    minus = np.stack([plus[0], *(a.vector(table, pages) for a in question.minus)])[1:]
    way = cos_mul if question.by_product else cos_add
    source = table if pages is None else pages
    return way(source, plus, minus, k, exclude=question.ids, among=among)


def cosines_between(table: EmbeddingTable, asked: Sequence[Asked]) -> Array:
    """The cosine of each with each (n, n), in float64. Raises UsageError without a direction."""
    if len(asked) < 2:
        raise UsageError(f"{len(asked)} word was given; similarity takes two or more")
    units = unit_rows(np.stack([a.vector(table) for a in asked]))
    cosines: Array = np.clip(units @ units.T, -1.0, 1.0)
    return cosines
