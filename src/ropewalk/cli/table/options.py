"""What the commands of `ropewalk table` share: options, the opened table, the closing lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.output import show
from ropewalk.cli.progress import PATIENCE, Progress
from ropewalk.report.document import Block, Prose, ToCopy

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable


class RoleName(StrEnum):
    """Which of a model's tables."""

    INPUT = "input"
    OUTPUT = "output"
    POSITIONS = "positions"


class ViewName(StrEnum):
    """Rows as the file has them, or as the model uses them."""

    RAW = "raw"
    AS_USED = "as_used"


TABLE = "Which table"
"""The group of options that say what is looked at."""

Role = Annotated[
    RoleName,
    typer.Option(
        help="The input table, the output head, or learned positions.", rich_help_panel=TABLE
    ),
]
Tensor = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The tensor, where several fit the role.", rich_help_panel=TABLE
    ),
]
View = Annotated[
    ViewName,
    typer.Option(
        help="Rows as the file stores them, or scaled and normed as the model uses them.",
        rich_help_panel=TABLE,
    ),
]
AllRows = Annotated[
    bool,
    typer.Option("--all-rows", help="Take in rows without a token, too.", rich_help_panel=TABLE),
]

AsJson = options.AsJson

IDENTITY_NOTE = (
    "A row is a token's identity, not its meaning in a sentence: one row serves both meanings of "
    '"bank". For meaning in context:'
)
"""Stands under every answer that was read off a table alone, and a command under it."""


def model_of(context: typer.Context) -> str:
    """The MODEL that was given before the command's own name."""
    return str(context.obj)


def opened(
    context: typer.Context,
    role: RoleName = RoleName.INPUT,
    tensor: str | None = None,
    view: ViewName = ViewName.RAW,
) -> EmbeddingTable:
    """The table that was asked for. Raises what `ropewalk.tables.open.open_table` raises."""
    from ropewalk.tables.open import open_table

    return open_table(model_of(context), role.value, tensor=tensor, view=view.value)


def identity_note(context: typer.Context) -> tuple[Block, ...]:
    """IDENTITY_NOTE, and the command with the model as it was named, safe to print."""
    from ropewalk.report.text import visible

    model = visible(model_of(context))
    command = f'ropewalk table {model} context WORD "SENTENCE" "SENTENCE"'
    return Prose(IDENTITY_NOTE), ToCopy(command)


def close(context: typer.Context, table: EmbeddingTable) -> None:
    """The lines under an answer read off a table: what was read, and what rows cannot tell."""
    from ropewalk.report.text import visible

    show("", Prose(visible(table.line())), *identity_note(context))


@contextmanager
def at_work(phase: str) -> Iterator[Progress]:
    """Progress of what is quick on a small table and slow on a large one; `phase` comes first."""
    with Progress(PATIENCE) as shown:
        shown.say(phase)
        yield shown


def print_json(kind: str, document: dict[str, object]) -> None:
    """One JSON document on stdout; `kind` names its schema, like "near"."""
    whole = {"schema": f"ropewalk.table.{kind}/1", **document}
    typer.echo(json.dumps(whole, indent=2, allow_nan=False))
