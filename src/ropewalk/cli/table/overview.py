"""`ropewalk table MODEL`: which tables a model has, before anything in them is read."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from ropewalk.cli.output import show
from ropewalk.cli.table.options import at_work, model_of, print_json
from ropewalk.report.document import Prose


@dataclass(frozen=True)
class _Line:
    name: str
    text: str


def print_overview(context: typer.Context, *, as_json: bool = False) -> None:
    """The tables of each role, the tie between input and output, rows against tokens."""
    from ropewalk.errors import UsageError
    from ropewalk.report.text import visible
    from ropewalk.tables.open import open_tables
    from ropewalk.tables.roles import ROLES

    with at_work("opening the tables"):
        tables = open_tables(model_of(context))
    lines = [_Line("model", tables.title)]
    for role in ROLES:
        try:
            if role == "output" and tables.tie.missing:
                lines.append(_Line(role, "missing"))
                continue
            table = tables.table(role)
        except UsageError:
            # No name is known for it, or several fit: what fits by shape is listed.
            fitting = ", ".join(map(str, tables.candidates(role))) or "none found"
            lines.append(_Line(role, fitting))
        else:
            rows, width = table.shape
            lines.append(_Line(role, f"{table.name}, {rows:,} x {width:,} {table.storage}"))
            if role == "input":
                lines.append(_Line("rows", table.coverage()))
    lines.append(_Line("tie", tables.tie.sentence))
    if as_json:
        print_json("overview", {line.name: line.text for line in lines})
        return
    for line in lines:
        show(Prose(visible(line.text), f"{line.name:<10} ", " " * 11))
