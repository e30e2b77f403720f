"""A question about nearness put to an opened table, and everything that the answer has to say.

An analogy is "what is to c as b is to a", by sums or by products of cosines. 3CosAdd (Mikolov, Yih
and Zweig 2013) takes the row nearest to the mean of the unit vectors, those to subtract with
weight -1. 3CosMul (Levy and Goldberg 2014, section 6) takes the row with the largest product of
its cosines with what is added, each moved to 0..1, over that with what is subtracted, plus 0.001
in their paper and 0.000001 in gensim, whose figures people know. Inputs are never the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import Array, doubles
from ropewalk.short import short
from ropewalk.tables.search import DECIMALS, FoundRows, check_k, search, stretches, unit_rows
from ropewalk.tables.words import WordRows, mean_direction

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable


@short
@dataclass(frozen=True, slots=True)
class NearQuestion:
    """One thing asked for, with what is added to it and taken from it; `by_product` is 3CosMul."""

    of: WordRows
    plus: tuple[WordRows, ...] = ()
    minus: tuple[WordRows, ...] = ()
    by_product: bool = False

    @property
    def inputs(self) -> tuple[WordRows, ...]:
        """All that was named; none of their rows is an answer."""
        return (self.of, *self.plus, *self.minus)

    @property
    def ids(self) -> tuple[int, ...]:
        """The rows of all inputs, each once, ascending."""
        return tuple(sorted({row for asked in self.inputs for row in asked.ids}))


@short
@dataclass(frozen=True, slots=True)
class NearAnswer:
    """The rows nearest to what a question asks for, best first, as (id, score)."""

    question: NearQuestion
    found: tuple[tuple[int, float], ...]


@short
@dataclass(frozen=True, slots=True)
class NearAnswers:
    """Answers to several questions, and what was left out of all of them.

    `compared` counts the rows that were; `bare` those left out for having no token; `zero` and
    `not_finite` are the rows left out for having no direction.
    """

    answers: tuple[NearAnswer, ...]
    compared: int
    bare: int
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]


def answer(
    table: EmbeddingTable, questions: Sequence[NearQuestion], k: int, *, all_rows: bool = False
) -> NearAnswers:
    """The `k` rows nearest to each question, in one pass over the table where all are plain.

    Rows without a token are compared with `all_rows` alone. Raises UsageError for a `k` that
    cannot be and for inputs without direction.
    """
    check_k(k, table.rows)
    if not questions:
        raise UsageError("nothing was asked; give a word, --id or --text")
    among = None if all_rows else table.with_token()
    bare = 0 if among is None else table.rows - int(among.sum())
    plain = [q for q in questions if not (q.plus or q.minus)]
    pages = table.pages()
    source = table if pages is None else pages
    near: FoundRows | None = None
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
    answers = tuple(NearAnswer(q, tuple(f)) for q, f in zip(questions, found, strict=True))
    return NearAnswers(answers, one.ranked, bare, one.zero, one.not_finite)


def _analogy(
    table: EmbeddingTable, pages: Array | None, question: NearQuestion, k: int, among: Array | None
) -> FoundRows:
    plus = np.stack([a.vector(table, pages) for a in (question.of, *question.plus)])
    minus = np.stack([plus[0], *(a.vector(table, pages) for a in question.minus)])[1:]
    way = cos_mul if question.by_product else cos_add
    source = table if pages is None else pages
    return way(source, plus, minus, k, exclude=question.ids, among=among)


def cosines_between(table: EmbeddingTable, asked: Sequence[WordRows]) -> Array:
    """The cosine of each with each (n, n), in float64. Raises UsageError without a direction."""
    if len(asked) < 2:
        raise UsageError(f"{len(asked)} word was given; similarity takes two or more")
    units = unit_rows(np.stack([a.vector(table) for a in asked]))
    cosines: Array = np.clip(units @ units.T, -1.0, 1.0)
    return cosines


EPSILON = 1e-6
"""Keeps the quotient of 3CosMul finite."""

_TILE_ROWS = 1024


def cos_add(
    table: EmbeddingTable | Array,
    plus: Array,
    minus: Array,
    k: int,
    *,
    exclude: Sequence[int],
    among: Array | None = None,
) -> FoundRows:
    """The `k` rows nearest to the mean of the unit vectors of `plus` and of minus `minus`.

    Both are (n, width), and need not be of unit length. Raises as `search`, and UsageError
    where the mean vanishes.
    """
    units = unit_rows(np.concatenate([plus, minus]))
    mean = mean_direction(units, [1.0] * len(plus) + [-1.0] * len(minus))
    return search(table, mean, k, exclude=[list(exclude)], among=among)


def cos_mul(
    table: EmbeddingTable | Array,
    plus: Array,
    minus: Array,
    k: int,
    *,
    exclude: Sequence[int],
    among: Array | None = None,
) -> FoundRows:
    """The `k` rows with the largest product of cosines; scores are that quotient, no cosines.

    Arguments and errors are those of `cos_add`. The whole pass is made in double precision.
    """
    rows = table.shape[0]
    check_k(k, rows)
    units = unit_rows(np.concatenate([plus, minus]))
    scores, norms = np.full(rows, -np.inf), np.empty(rows)
    # Rows without direction give no score, and are told by their norms.
    with np.errstate(all="ignore"):
        for start, tile in stretches(table, _TILE_ROWS):
            wide = doubles(tile)
            place = slice(start, start + len(tile))
            norms[place] = np.sqrt(np.square(wide).sum(axis=1))
            near = (1 + units @ wide.T / norms[place]) / 2
            scores[place] = near[: len(plus)].prod(0) / (near[len(plus) :].prod(0) + EPSILON)
    asked = np.ones(rows, np.bool_) if among is None else among
    zero, lost = asked & (norms == 0), asked & ~np.isfinite(norms)
    usable = asked & ~zero & ~lost
    ranked = int(usable.sum())
    usable[list(exclude)] = False
    if int(usable.sum()) < k:
        raise UsageError(f"{k} rows were asked for, and {int(usable.sum())} can be compared")
    scores = np.where(usable, np.round(scores, DECIMALS), -np.inf)
    # A stable sort leaves equal scores in the order of their ids.
    best = np.argsort(-scores, kind="stable")[:k]
    zeros, losses = (tuple(np.flatnonzero(mask).tolist()) for mask in (zero, lost))
    return FoundRows(best[None], scores[best][None], zeros, losses, ranked)
