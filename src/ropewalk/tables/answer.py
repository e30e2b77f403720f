"""A question about nearness put to an opened table, and everything that the answer has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.tables.analogy import cos_add, cos_mul
from ropewalk.tables.near import Neighbours, check_k, mapped, neighbours, unit_rows
from ropewalk.tables.words import Asked

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable


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


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows nearest to what a question asks for, best first, as (id, score)."""

    question: Question
    found: tuple[tuple[int, float], ...]


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
    import torch

    check_k(k, table.rows)
    if not questions:
        raise UsageError("nothing was asked; give a word, --id or --text")
    among = None if all_rows else with_token(table)
    bare = 0 if among is None else table.rows - int(among.sum())
    plain = [q for q in questions if not (q.plus or q.minus)]
    rows = mapped(table)
    source = table if rows is None else rows
    near: Neighbours | None = None
    found: list[list[tuple[int, float]]] = []
    if plain:
        vectors = torch.stack([q.of.vector(table, rows) for q in plain])
        near = neighbours(source, vectors, k, exclude=[q.ids for q in plain], among=among)
    for question in questions:
        if question.plus or question.minus:
            one = _analogy(table, rows, question, k, among)
            found.append(one.of(0))
        else:
            assert near is not None  # noqa: S101 - a plain question is there
            one = near
            found.append(near.of(plain.index(question)))
    answers = tuple(Answer(q, tuple(f)) for q, f in zip(questions, found, strict=True))
    return Answers(answers, one.ranked, bare, one.zero, one.not_finite)


def with_token(table: EmbeddingTable) -> Tensor | None:
    """Which rows (rows,) have a token, or a position; None where that is not known of any."""
    import torch

    if table.role == "positions":
        return torch.arange(table.rows) >= table.position_offset
    if table.vocabulary is None:
        return None
    tokens = table.vocabulary.tokens[: table.rows]
    mask = torch.zeros(table.rows, dtype=torch.bool)
    mask[: len(tokens)] = torch.tensor([token is not None for token in tokens])
    return mask


def _analogy(
    table: EmbeddingTable, rows: Tensor | None, question: Question, k: int, among: Tensor | None
) -> Neighbours:
    import torch

    plus = torch.stack([a.vector(table, rows) for a in (question.of, *question.plus)])
    minus = torch.stack([plus[0], *(a.vector(table, rows) for a in question.minus)])[1:]
    way = cos_mul if question.by_product else cos_add
    source = table if rows is None else rows
    return way(source, plus, minus, k, exclude=question.ids, among=among)


def cosines_between(table: EmbeddingTable, asked: Sequence[Asked]) -> Tensor:
    """The cosine of each with each (n, n), in float64. Raises UsageError without a direction."""
    import torch

    if len(asked) < 2:
        raise UsageError(f"{len(asked)} word was given; similarity takes two or more")
    units = unit_rows(torch.stack([a.vector(table) for a in asked]))
    return (units @ units.T).clamp(-1.0, 1.0)
