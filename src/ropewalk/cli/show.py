"""`ropewalk show FOLDER`: a finished or running proof again, or one exact prompt of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.pages import Html

if TYPE_CHECKING:
    from ropewalk.proof.cells import Row
    from ropewalk.proof.store import Store

FARTHEST = 0.005
"""How far from a kept depth the depth of --cell may be, as a share."""


def show_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run folder.")],
    cell: Annotated[
        str | None,
        typer.Option(
            metavar="CELL",
            help="LENGTH,DEPTH,TRIAL, like 8000,25,0: print that prompt, into a file exactly as "
            "it was. A control's name may follow: 0,0,0,needle-only.",
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Another threshold than the run's; as for prove."),
    ] = None,
    as_json: options.AsJson = False,
    html: Html = None,
) -> None:
    """Show a run folder's heat map, or the exact prompt and answer of one cell."""
    from ropewalk.errors import UsageError
    from ropewalk.proof.facts import own_rows, summary_of
    from ropewalk.proof.statistics import parse_threshold
    from ropewalk.proof.store import Store

    bar = None if threshold is None else parse_threshold(threshold)
    with Store.read(folder) as store:
        facts = store.facts()
        rows = own_rows(store.rows(), facts)
        if cell is not None:
            if html is not None:
                raise UsageError("a page shows the whole run; leave --cell out, or the page")
            row = find_row(rows, cell, folder)
            if as_json:
                typer.echo(json.dumps(_row_document(row, store), indent=2, allow_nan=False))
            else:
                _print_row(row, store)
            return
    from ropewalk.cli.output import console
    from ropewalk.proof.facts import by_task

    summary, tasks = summary_of(rows, facts, bar), by_task(rows, facts, bar)
    if as_json:
        from ropewalk.proof.export import run_to_json

        typer.echo(json.dumps(run_to_json(summary, rows, tasks), indent=2, allow_nan=False))
    else:
        from ropewalk.report.task_text import print_tasks

        print_tasks(console(), tasks or {"single": summary})
    if html is not None:
        from ropewalk.files import write_whole
        from ropewalk.report.run_folder import folder_html

        write_whole(html, folder_html(folder, rows, summary, tasks))


def find_row(rows: Sequence[Row], cell: str, folder: Path) -> Row:
    """The row that --cell names: of its length, trial, control and task the nearest in depth.

    Raises UsageError for text that names no cell, and for a cell without an answer.
    """
    from ropewalk.errors import UsageError
    from ropewalk.lengths import read_length
    from ropewalk.proof.cells import Control

    parts = cell.split(",")
    tasks = {row.cell.task for row in rows}
    try:
        length, depth, trial = read_length(parts[0]), float(parts[1]) / 100, int(parts[2])
        further = [part.strip() for part in parts[3:]]
        control = Control(further.pop(0)) if further and further[0] in list(Control) else None
        task = further.pop(0) if further and further[0] in tasks else "single"
        fits = length is not None and not further and 0 <= depth <= 1
    except (IndexError, ValueError):
        fits = False
    if not fits:
        raise UsageError(
            f"--cell {cell!r} is not understood: write LENGTH,DEPTH,TRIAL with the depth in "
            "percent, like 8000,25,0, and for a control its name as well "
            f"({', '.join(each for each in Control if each is not Control.NONE)}), and for a task "
            "other than single that name last"
        )
    near = [
        (abs(row.cell.depth - depth), row)
        for row in rows
        if (row.cell.length, row.cell.trial) == (length, trial)
        and (row.cell.control, row.cell.task) == (control or Control.NONE, task)
        and abs(row.cell.depth - depth) < FARTHEST
    ]
    if not near:
        raise UsageError(
            f"{folder} holds no answer for --cell {cell}; ropewalk show {folder} shows which "
            "lengths and depths it has"
        )
    return min(near, key=lambda pair: pair[0])[1]


def _row_document(row: Row, store: Store) -> dict[str, object]:
    """A row by its columns, with the exact prompt."""
    from ropewalk.proof.export import row_to_json

    prompt = store.prompt_text(row.prompt_hash)
    return {"schema": "ropewalk.show.cell/1", **row_to_json(row), "prompt": prompt}


def _print_row(row: Row, store: Store) -> None:
    """The prompt on stdout, what came of it on stderr."""
    from ropewalk.proof.cells import Control
    from ropewalk.report.text import visible

    text, answer = store.prompt_text(row.prompt_hash), row.answer
    if sys.stdout.isatty():
        typer.echo(visible(text, newlines=True))
    else:
        # Bytes, so that neither line ends nor characters change on the way into a file.
        typer.echo(text.encode("utf-8"), nl=False)
    sys.stdout.flush()
    hidden = row.cell.control is not Control.NO_NEEDLE
    where = f"needle at {row.actual_depth:.1%}" if hidden else "no needle"
    from ropewalk.cli.output import tell

    typer.echo(err=True)
    tell(
        f"[{answer.outcome}] expected {row.value}, printed {visible(answer.printed)!r}; "
        f"{row.actual_length:,} tokens, {where}"
    )
