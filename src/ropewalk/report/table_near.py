"""Neighbours, and cosines of words with one another: what was asked, which spelling was used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ropewalk.report.document import (
    Block,
    Column,
    Document,
    HeatMap,
    MapField,
    Prose,
    Table,
)
from ropewalk.report.text import cut
from ropewalk.short import short
from ropewalk.tables.answer import NearAnswers, Similarity
from ropewalk.tables.vocabulary import display

if TYPE_CHECKING:
    from ropewalk.tables.answer import NearAnswer, NearQuestion
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.vocabulary import Spelling
    from ropewalk.tables.words import WordRows

WIDTH, LABEL = 100, 28
"""Columns of the report, and of a token."""
NAMED = 10
"""Rows that a line names; of more it gives the number."""


@short
@dataclass(frozen=True, slots=True)
class NearRow:
    """A row among the nearest: its place from 1, its number, its score."""

    place: int
    row: int
    score: float


def document(found: NearAnswers | Similarity, *, table: EmbeddingTable) -> Document:
    """Answers, and which rows were compared; or the cosines of each word with each."""
    title = table.tables.title
    if isinstance(found, Similarity):
        blocks = tuple(_similarity(found, table))
        question = f"How alike are these words in {title}?"
        return Document(title, blocks, "ropewalk table similarity", question, WIDTH)
    parts: list[Block] = []
    for answer in found.answers:
        parts += [*_answer(answer, table), ""]
    parts.append(_prose(_compared(found)))
    question = f"Which rows of {title} are near?"
    return Document(title, tuple(parts), "ropewalk table near", question, WIDTH)


def _similarity(found: Similarity, table: EmbeddingTable) -> Iterator[Block]:
    """What stands for each word, then the cosines: of two in a line, of more as a map."""
    for number, one in enumerate(found.asked, 1):
        yield Prose(asked_line(one, table), f"{number:>3}  ", " " * 9, hyphens=False)
    yield ""
    cosines = found.cosines.tolist()
    if len(cosines) == 2:
        yield f"cosine {cosines[0][1]:.4f}"
        return
    names = [_name(one) for one in found.asked]
    fields = tuple(
        tuple(
            MapField((value + 1) / 2, f"{value:.2f}", f"{names[r]} and {names[c]}: {value:.6f}")
            for c, value in enumerate(row)
        )
        for r, row in enumerate(cosines)
    )
    numbers = tuple(str(number) for number in range(1, len(names) + 1))
    rows = tuple(f"{n} {cut(name, 8)}" for n, name in zip(numbers, names, strict=True))
    yield HeatMap("Cosines", "", numbers, rows, fields, shades=False, ends=("-1", "1"))


def _name(asked: WordRows) -> str:
    """A word by the spelling that was used; a row or text as it was named."""
    return asked.text if asked.used is None else display(asked.used.key)


def values(found: NearAnswers | Similarity, table: EmbeddingTable) -> dict[str, object]:
    """The same as plain values."""
    if isinstance(found, Similarity):
        return {
            "model": table.tables.title,
            "table": {"role": table.role, "tensor": table.name, "view": table.view},
            "words": [_asked_values(one, table) for one in found.asked],
            "cosines": found.cosines.tolist(),
        }
    return {
        "model": table.tables.title,
        "table": {
            "role": table.role,
            "tensor": table.name,
            "rows": table.rows,
            "width": table.width,
            "storage": table.storage,
            "view": table.view,
            "bytes": table.size,
            "bytes_read": table.bytes_read,
        },
        "answers": [
            {
                "question": _question_values(a.question, table),
                "score": "3CosMul" if _by_product(a.question) else "cosine",
                "neighbours": [
                    {"id": row, "token": table.label(row), "score": score} for row, score in a.found
                ],
            }
            for a in found.answers
        ],
        "compared": found.compared,
        "left_out": {
            "without_token": found.bare,
            "zero": {"count": len(found.zero), "first": found.zero[:NAMED]},
            "not_finite": {"count": len(found.not_finite), "first": found.not_finite[:NAMED]},
        },
    }


def asked_line(asked: WordRows, table: EmbeddingTable) -> str:
    """What stands for a word, a row or a text, in one line."""
    if asked.used is not None:
        line = f"{display(asked.used.key)}  row {asked.ids[0]}, {asked.used.form}"
        if len(asked.used.ids) > 1:
            line += f", the lowest of rows {_rows(asked.used.ids)}"
        if asked.others:
            line += f"; also tokens: {', '.join(map(_spelling, asked.others))}"
        return line
    if len(asked.ids) == 1 and asked.text == table.label(asked.ids[0]):
        return f"{asked.text}  row {asked.ids[0]}"
    pieces = " ".join(f"{table.label(row)} ({row})" for row in asked.ids)
    many = f"the mean of {len(asked.ids)} tokens" if len(asked.ids) > 1 else "one token"
    return f'"{asked.text}"  {many}: {pieces}'


def _asked_values(asked: WordRows, table: EmbeddingTable) -> dict[str, object]:
    held: dict[str, object] = {
        "text": asked.text,
        "ids": list(asked.ids),
        "tokens": [table.label(row) for row in asked.ids],
    }
    if asked.used is not None:
        held["spelling"] = _spelling_values(asked.used)
        held["other_spellings"] = [_spelling_values(s) for s in asked.others]
    return held


def _answer(answer: NearAnswer, table: EmbeddingTable) -> Iterator[Block]:
    question = answer.question
    signs = [" "] + ["+"] * len(question.plus) + ["-"] * len(question.minus)
    for sign, asked in zip(signs, question.inputs, strict=True):
        mark = f"{sign} " if len(signs) > 1 else ""
        yield _prose(f"{mark}{asked_line(asked, table)}", "    ")
    if _by_product(question):
        yield "scores: 3CosMul, a quotient of cosines moved to 0..1"
    rows = [NearRow(place, *pair) for place, pair in enumerate(answer.found, 1)]
    columns = (
        Column("", 5, attrgetter("place"), align=">", key="place"),
        Column("", LABEL + 2, lambda r: table.label(r.row), _token, "<", key="token"),
        Column("", 10, attrgetter("score"), "{:.4f}", key="score"),
        Column("", 0, attrgetter("row"), "row {}", "<", key="row"),
    )
    yield Table(columns, rows, words=True, key="neighbours")


def _token(label: str) -> str:
    return cut(label, LABEL)


def _by_product(question: NearQuestion) -> bool:
    return question.by_product and bool(question.plus or question.minus)


def _question_values(question: NearQuestion, table: EmbeddingTable) -> dict[str, object]:
    return {
        "of": _asked_values(question.of, table),
        "plus": [_asked_values(a, table) for a in question.plus],
        "minus": [_asked_values(a, table) for a in question.minus],
    }


def _compared(answers: NearAnswers) -> str:
    left = ["the inputs"]
    if answers.bare:
        left.append(f"{answers.bare:,} rows without a token (--all-rows takes them in)")
    for rows, what in ((answers.zero, "all zeros"), (answers.not_finite, "NaN or infinity")):
        if rows:
            left.append(f"{len(rows):,} of {what}, which have no direction: {_rows(rows)}")
    return f"Compared with {answers.compared:,} rows; left out: {'; '.join(left)}."


def _spelling(spelling: Spelling) -> str:
    return f"{display(spelling.key)} ({', '.join(map(str, spelling.ids))})"


def _spelling_values(spelling: Spelling) -> dict[str, object]:
    return {
        "form": spelling.form,
        "token": display(spelling.key),
        "bytes": spelling.key.hex(),
        "ids": list(spelling.ids),
    }


def _rows(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - NAMED:,} more" if len(rows) > NAMED else ""
    return ", ".join(map(str, rows[:NAMED])) + more


def _prose(text: str, hang: str = "") -> Prose:
    return Prose(text, "", hang, hyphens=False)
