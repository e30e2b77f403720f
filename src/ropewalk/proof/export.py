"""A kept answer as one flat record: the columns of the store, of the CSV and of the JSON.

Results for other programs: rows as CSV, rows and summary as JSON.

CSV text cells that a spreadsheet would run as a formula (beginning with = + - @, a tab or a
carriage return) get an apostrophe in front, because keys, values and printed texts come from
models and files. JSON holds every text exactly as it was.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row, Sharing
from ropewalk.proof.summary import RunSummary

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


JSON_FORMAT = 1
"""Raised whenever a name in the JSON changes its meaning or goes."""


def rows_to_csv(rows: Iterable[Row]) -> str:
    """One line a row under a line of COLUMNS, RFC 4180 quoting; missing numbers are empty."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            _not_a_formula(cell) if isinstance(cell, str) else cell for cell in to_record(row)
        )
    return out.getvalue()


def run_to_json(
    summary: RunSummary, rows: Iterable[Row], tasks: Mapping[str, RunSummary] | None = None
) -> dict[str, object]:
    """Summary and rows as plain JSON values; where there are several, also each task's summary.

    A number that JSON cannot hold (minus infinity, for a value thought impossible) becomes its
    name as a text, like "-inf".
    """
    several = {"tasks": _plain(tasks)} if tasks and len(tasks) > 1 else {}
    return {
        "format": JSON_FORMAT,
        "summary": _plain(summary),
        **several,
        "rows": [row_to_json(row) for row in rows],
    }


def row_to_json(row: Row) -> dict[str, object]:
    """A row by its columns; details as what they are, and left out where there are none."""
    named = dict(zip(COLUMNS, map(_plain, to_record(row)), strict=True))
    details = named.pop("details")
    return named | {"details": json.loads(str(details))} if details else named


def _not_a_formula(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _plain(value: object) -> object:
    """Dataclasses, mappings, sequences and enums as what json.dumps takes."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        # A share is nothing to a reader without its value.
        return named | {"value": _plain(value.value)} if hasattr(value, "value") else named
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
