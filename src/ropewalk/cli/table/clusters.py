"""`ropewalk table MODEL clusters -n K`: rows of like direction, and what is central to each."""

from __future__ import annotations

from typing import Annotated

import typer

from ropewalk.cli.output import columns
from ropewalk.cli.table.options import (
    AllRows,
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


def clusters_command(
    context: typer.Context,
    number: Annotated[
        int, typer.Option("--number", "-n", metavar="K", help="How many clusters.")
    ] = 12,
    seed: Annotated[int, typer.Option(help="Of the sample and of the starts.")] = 0,
    fitted: Annotated[
        int,
        typer.Option(metavar="ROWS", help="Rows that centres are fitted on at most, sampled."),
    ] = 20_000,
    all_rows: AllRows = False,
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """Put rows into K clusters of like direction: sizes, central tokens, how tight they are."""
    from ropewalk.report.table_clusters import cluster_lines, document
    from ropewalk.tables.clusters import cluster

    with at_work("opening the table") as shown:
        table = opened(context, role, tensor, view)
        shown.say(f"putting rows into {number} clusters")
        found = cluster(table, number, seed=seed, fitted=fitted, all_rows=all_rows)
    if as_json:
        print_json("clusters", document(found, table))
        return
    for line in cluster_lines(found, table, columns()):
        typer.echo(line)
    close(context, table)
