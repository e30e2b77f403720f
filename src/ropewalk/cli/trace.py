"""`ropewalk trace MODEL TEXT`: a text followed into a real model, step by step."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ropewalk.cli import options


def trace_command(
    model: options.Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help='What to read, "The cat sat".')],
    dtype: Annotated[
        str,
        typer.Option(
            help="What to compute in; where a scale is rounded, it shows. auto is fp32.",
            **options.choice(*options.DTYPES),
        ),
    ] = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Trace a text into a model: ids, rows, scale, position, the first block, q and k.

    Each step is computed here and compared with the model's own; exit code 1 where they differ.
    """
    given: dict[str, Any] = locals()
    del given["as_json"]
    from ropewalk.cli.output import print_result
    from ropewalk.cli.progress import Progress
    from ropewalk.verbs.running import trace

    with Progress() as shown:
        traced = trace(**given, listener=shown.listener())
    print_result(traced, as_json=as_json)
    if not traced.agrees:
        raise typer.Exit(1)
