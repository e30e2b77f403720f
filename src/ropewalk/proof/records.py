"""A kept answer as one flat record: the columns of the store, of the CSV and of the JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row, Sharing

COLUMNS = (
    "length",
    "depth",
    "trial",
    "control",
    "task",
    "actual_length",
    "actual_depth",
    "key",
    "value",
    "outcome",
    "log_probability",
    "printed",
    "seconds",
    "prompt_hash",
    "details",
    "sharing",
    "tokens_read",
)
"""Lengths in tokens, depths as shares, natural logarithms."""


def to_record(row: Row) -> tuple[object, ...]:
    """The row's values in the order of COLUMNS: numbers, texts, None for what was not computed."""
    cell, answer = row.cell, row.answer
    return (
        cell.length,
        cell.depth,
        cell.trial,
        cell.control.value,
        cell.task,
        row.actual_length,
        row.actual_depth,
        row.key,
        row.value,
        answer.outcome.value,
        answer.log_probability,
        answer.printed,
        answer.seconds,
        row.prompt_hash,
        answer.details,
        row.sharing.value,
        row.tokens_read,
    )


def from_record(record: Sequence[Any]) -> Row:
    """The row of a record. Raises ValueError for a record that holds no row."""
    by = dict(zip(COLUMNS, record, strict=True))
    return Row(
        cell=Cell(by["length"], by["depth"], by["trial"], Control(by["control"]), by["task"]),
        actual_length=by["actual_length"],
        actual_depth=by["actual_depth"],
        key=by["key"],
        value=by["value"],
        answer=Answer(
            Outcome(by["outcome"]),
            by["log_probability"],
            by["printed"],
            by["seconds"],
            by["details"],
        ),
        prompt_hash=by["prompt_hash"],
        sharing=Sharing(by["sharing"]),
        tokens_read=by["tokens_read"],
    )
