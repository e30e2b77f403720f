"""Neighbours in the terminal and as JSON: what was asked, which spelling was used, what is near."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ropewalk.report.layout import Piece, Prose, lines
from ropewalk.report.table_lines import WIDTH, label, wrapped
from ropewalk.report.text import visible
from ropewalk.tables.vocabulary import display

if TYPE_CHECKING:
    from ropewalk.tables.answer import NearAnswer, NearAnswers, NearQuestion
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.vocabulary import Spelling
    from ropewalk.tables.words import WordRows

NAMED = 10
"""Rows that a line names; of more it gives the number."""


def near_lines(answers: NearAnswers, table: EmbeddingTable, width: int = WIDTH) -> Iterator[str]:
    """All answers, and under them which rows were compared, in `width` columns, WIDTH at most."""
    yield from lines(_pieces(answers, table), min(width, WIDTH))


def _pieces(answers: NearAnswers, table: EmbeddingTable) -> Iterator[Piece]:
    for answer in answers.answers:
        yield from _answer(answer, table)
        yield ""
    yield from wrapped(_compared(answers), indent="")


def near_document(answers: NearAnswers, table: EmbeddingTable) -> dict[str, object]:
    """The same, for JSON."""
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
                "question": _question_document(a.question, table),
                "score": "3CosMul" if _by_product(a.question) else "cosine",
                "neighbours": [
                    {"id": row, "token": table.label(row), "score": score} for row, score in a.found
                ],
            }
            for a in answers.answers
        ],
        "compared": answers.compared,
        "left_out": {
            "without_token": answers.bare,
            "zero": {"count": len(answers.zero), "first": answers.zero[:NAMED]},
            "not_finite": {"count": len(answers.not_finite), "first": answers.not_finite[:NAMED]},
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
    return f'"{visible(asked.text)}"  {many}: {pieces}'


def asked_document(asked: WordRows, table: EmbeddingTable) -> dict[str, object]:
    """The same, for JSON."""
    document: dict[str, object] = {
        "text": asked.text,
        "ids": list(asked.ids),
        "tokens": [table.label(row) for row in asked.ids],
    }
    if asked.used is not None:
        document["spelling"] = _spelling_document(asked.used)
        document["other_spellings"] = [_spelling_document(s) for s in asked.others]
    return document


def _answer(answer: NearAnswer, table: EmbeddingTable) -> Iterator[Piece]:
    question = answer.question
    signs = [" "] + ["+"] * len(question.plus) + ["-"] * len(question.minus)
    for sign, asked in zip(signs, question.inputs, strict=True):
        mark = f"{sign} " if len(signs) > 1 else ""
        yield from wrapped(f"{mark}{asked_line(asked, table)}", indent="", hang="    ")
    if _by_product(question):
        yield "scores: 3CosMul, a quotient of cosines moved to 0..1"
    for place, (row, score) in enumerate(answer.found, 1):
        yield Prose(f"{label(table.label(row))} {score:>9.4f}  row {row}", f"{place:>5}  ", " " * 7)


def _by_product(question: NearQuestion) -> bool:
    return question.by_product and bool(question.plus or question.minus)


def _question_document(question: NearQuestion, table: EmbeddingTable) -> dict[str, object]:
    return {
        "of": asked_document(question.of, table),
        "plus": [asked_document(a, table) for a in question.plus],
        "minus": [asked_document(a, table) for a in question.minus],
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


def _spelling_document(spelling: Spelling) -> dict[str, object]:
    return {
        "form": spelling.form,
        "token": display(spelling.key),
        "bytes": spelling.key.hex(),
        "ids": list(spelling.ids),
    }


def _rows(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - NAMED:,} more" if len(rows) > NAMED else ""
    return ", ".join(map(str, rows[:NAMED])) + more
