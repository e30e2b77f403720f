"""Words against a table's rows, or against each other, as documents and plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ropewalk.report.document import (
    Block,
    Column,
    Document,
    Heading,
    HeatMap,
    MapField,
    Prose,
    Table,
    in_terminal,
    on_page,
)
from ropewalk.report.text import fit, visible
from ropewalk.tables.vocabulary import display

if TYPE_CHECKING:
    from ropewalk.kernels.arrays import Array
    from ropewalk.tables.answer import NearAnswer, NearAnswers, NearQuestion
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.vocabulary import Spelling
    from ropewalk.tables.words import WordRows

WIDTH = 100
NAMED = 10
"""Rows that a line names; of more it gives the number."""
LABEL = 28
"""Cells of a token."""
_FIELD = 7
_ACROSS = 10
"""Columns of cosines side by side in the terminal; more words make further blocks."""


def near_document(answers: NearAnswers, table: EmbeddingTable) -> Document:
    """All answers, and under them which rows were compared."""
    blocks: list[Block] = []
    for answer in answers.answers:
        blocks += [*_answer(answer, table), ""]
    blocks.append(Prose(_compared(answers)))
    question = f"Which rows of {table.tables.title} are near?"
    title = f"{table.tables.title}: nearest rows"
    return Document(title, tuple(blocks), "ropewalk table near", question, width=WIDTH)


def near_values(answers: NearAnswers, table: EmbeddingTable) -> dict[str, object]:
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
                "question": _question_values(a.question, table),
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
            line += f", the lowest of rows {_named(asked.used.ids)}"
        if asked.others:
            line += f"; also tokens: {', '.join(map(_spelling, asked.others))}"
        return line
    if len(asked.ids) == 1 and asked.text == table.label(asked.ids[0]):
        return f"{asked.text}  row {asked.ids[0]}"
    pieces = " ".join(f"{table.label(row)} ({row})" for row in asked.ids)
    many = f"the mean of {len(asked.ids)} tokens" if len(asked.ids) > 1 else "one token"
    return f'"{visible(asked.text)}"  {many}: {pieces}'


def asked_values(asked: WordRows, table: EmbeddingTable) -> dict[str, object]:
    """The same, for JSON."""
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
        yield Prose(f"{mark}{asked_line(asked, table)}", rest="    ")
    if _by_product(question):
        yield "scores: 3CosMul, a quotient of cosines moved to 0..1"
    columns = (
        Column("", 5, lambda row: row[0], align=">", key="place"),
        token_column(lambda row: table.label(row[1][0])),
        Column("", 10, lambda row: row[1][1], "{:.4f}", key="score"),
        Column("", 0, lambda row: row[1][0], "row {}", "<", key="row"),
    )
    yield Table(columns, list(enumerate(answer.found, 1)), key="near")


def token_column(of: Callable[[Any], str], name: str = "") -> Column:
    """A token, cut where it is long."""
    return Column(name, LABEL + 2, of, lambda text: clipped(text, LABEL), "<", key="token")


def clipped(text: str, size: int) -> str:
    """A text in at most `size` cells, made safe before it is measured."""
    return fit(visible(text), size).rstrip()


def _by_product(question: NearQuestion) -> bool:
    return question.by_product and bool(question.plus or question.minus)


def _question_values(question: NearQuestion, table: EmbeddingTable) -> dict[str, object]:
    return {
        "of": asked_values(question.of, table),
        "plus": [asked_values(a, table) for a in question.plus],
        "minus": [asked_values(a, table) for a in question.minus],
    }


def _compared(answers: NearAnswers) -> str:
    left = ["the inputs"]
    if answers.bare:
        left.append(f"{answers.bare:,} rows without a token (--all-rows takes them in)")
    for rows, what in ((answers.zero, "all zeros"), (answers.not_finite, "NaN or infinity")):
        if rows:
            left.append(f"{len(rows):,} of {what}, which have no direction: {_named(rows)}")
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


def _named(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - NAMED:,} more" if len(rows) > NAMED else ""
    return ", ".join(map(str, rows[:NAMED])) + more


def name_of(asked: WordRows) -> str:
    """A word by the spelling that was used; a row or text as it was named."""
    return display(asked.used.key) if asked.used is not None else visible(asked.text)


def similarity_document(
    asked: Sequence[WordRows], cosines: Array, table: EmbeddingTable
) -> Document:
    """What stands for each word, then the cosines (n, n): of two in a line, of more as a map."""
    held: list[list[float]] = cosines.tolist()
    names = [name_of(one) for one in asked]
    lines = [Prose(asked_line(one, table), f"{i:>3}  ", " " * 9) for i, one in enumerate(asked, 1)]
    blocks: list[Block] = [*lines, ""]
    if len(asked) == 2:
        blocks.append(in_terminal(f"cosine {held[0][1]:.4f}"))
    else:
        blocks.append(in_terminal(*_squares(names, held)))
    lead = "Cosine of each row with each. A row is a token's identity, not its meaning in a "
    blocks.append(on_page(Heading("Cosines", f"{lead}sentence."), _map(names, held)))
    title = f"{table.tables.title}: cosines of words"
    question = f"How alike are these rows of {table.tables.title}?"
    return Document(title, tuple(blocks), "ropewalk table similarity", question, width=WIDTH)


def similarity_values(
    asked: Sequence[WordRows], cosines: Array, table: EmbeddingTable
) -> dict[str, object]:
    """The same as plain values."""
    return {
        "model": table.tables.title,
        "table": {"role": table.role, "tensor": table.name, "view": table.view},
        "words": [asked_values(one, table) for one in asked],
        "cosines": cosines.tolist(),
    }


def _squares(names: Sequence[str], cosines: Sequence[Sequence[float]]) -> Iterator[Table]:
    """Every cosine, painted from orange (-1) over sand (0) to blue (1)."""

    def cosine(at: int) -> Callable[[Any], float]:
        return lambda row: float(row[2][at])

    def tone(at: int) -> Callable[[Any], float]:
        return lambda row: (row[2][at] + 1) / 2

    for first in range(0, len(names), _ACROSS):
        columns = [
            Column("", 3, lambda row: row[0], align=">", key="number"),
            Column("", 22, lambda row: row[1], lambda text: clipped(text, 20), "<", key="word"),
        ]
        columns += [
            Column(str(at + 1), _FIELD, cosine(at), "{:.2f} ", tone=tone(at))
            for at in range(first, min(first + _ACROSS, len(names)))
        ]
        rows = [(i, name, cosines[i - 1]) for i, name in enumerate(names, 1)]
        yield Table(columns, rows, key="cosines")


def _map(names: Sequence[str], cosines: Sequence[Sequence[float]]) -> HeatMap:
    short = tuple(clipped(name, 18) for name in names)
    fields = tuple(
        tuple(
            MapField((value + 1) / 2, f"{value:.2f}", f"{names[r]} and {names[c]}: {value:.6f}")
            for c, value in enumerate(row)
        )
        for r, row in enumerate(cosines)
    )
    return HeatMap("Cosines", "", short, short, fields, legend=("From -1 to 1.",))
