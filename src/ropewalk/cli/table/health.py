"""`ropewalk table MODEL health`: what is wrong with a table, and how it is shaped."""

from __future__ import annotations

from typing import Annotated

import typer

from ropewalk.cli.output import columns
from ropewalk.cli.table.options import (
    AsJson,
    Role,
    RoleName,
    Tensor,
    View,
    ViewName,
    at_work,
    close,
    opened,
    print_json,
)

MOST = 100_000
"""Rows that one entry of --unused may span."""


def health_command(
    context: typer.Context,
    top: Annotated[int, typer.Option("--top", "-k", help="Rows named in each list.")] = 10,
    sample: Annotated[
        int, typer.Option(help="Rows drawn for near duplicates, hubs and the partition function.")
    ] = 1024,
    seed: Annotated[int, typer.Option(help="Of the rows and pairs that are drawn.")] = 0,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Count rows without a token, too.")
    ] = False,
    unused: Annotated[
        str,
        typer.Option(metavar="ROWS", help="Rows known never to have been trained, like 5,7-9."),
    ] = "",
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """Norms, zero and equal rows, under-trained candidates, isotropy, drift, hubs."""
    from dataclasses import asdict

    from ropewalk.errors import UsageError
    from ropewalk.report.table_health import health_lines
    from ropewalk.tables.health.check import HealthOptions, check_health

    asked = HealthOptions(top, sample, seed, all_rows, rows_of(unused))
    if role is RoleName.POSITIONS:
        raise UsageError(
            f"health asks of tokens; for positions: ropewalk table {context.obj} positions"
        )
    with at_work("opening the table") as shown:
        table = opened(context, role, tensor, view)
        shown.say(f"reading {table.rows:,} rows about five times")
        health = check_health(table, asked, shown.note)
    if as_json:
        document = asdict(health) | {"table": table.name, "role": table.role, "view": table.view}
        print_json("health", document)
        return
    for line in health_lines(health, columns()):
        typer.echo(line)
    close(context, table)


def rows_of(text: str) -> tuple[int, ...]:
    """Rows from "5,7-9". Raises UsageError for anything else."""
    from ropewalk.errors import UsageError

    rows: list[int] = []
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        ends = [first, last] if dash else [first]
        if not all(end.isascii() and end.isdecimal() and len(end) < 10 for end in ends):
            raise UsageError(f"--unused has {part.strip()!r}; it takes rows like 5,7-9")
        low, high = int(ends[0]), int(ends[-1])
        if not low <= high < low + MOST:
            raise UsageError(
                f"--unused has {part.strip()!r}; a stretch goes up, over {MOST:,} rows at most"
            )
        rows += range(low, high + 1)
    return tuple(rows)
