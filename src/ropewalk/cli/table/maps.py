"""`ropewalk table MODEL map --html FILE` and `clusters -n K`: how all rows of a table lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli.output import show
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
    print_answer,
    print_json,
)
from ropewalk.report.document import Prose

MOST_POINTS = 50_000


def map_command(
    context: typer.Context,
    html: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")],
    points: Annotated[
        int, typer.Option(metavar="N", help="Rows to show at most; of more, a seeded sample.")
    ] = MOST_POINTS,
    seed: Annotated[int, typer.Option(help="Of the sample and of the clusters.")] = 0,
    mean: Annotated[
        bool, typer.Option("--mean/--no-mean", help="Axes about the mean of all rows, or zero.")
    ] = True,
    neighbours: Annotated[
        int, typer.Option(metavar="K", help="Neighbours to list of each row; 0 for none.")
    ] = 8,
    clusters: Annotated[
        int, typer.Option(metavar="K", help="Clusters to colour by; 0 for none.")
    ] = 12,
    all_rows: AllRows = False,
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """Draw a table's rows on their two widest axes, as one page that needs no network."""
    from ropewalk.errors import UsageError
    from ropewalk.files import write_whole
    from ropewalk.report.table_map import facts, map_html
    from ropewalk.tables.clusters import cluster
    from ropewalk.tables.principal import nearest, project

    if neighbours < 0 or clusters < 0:
        raise UsageError("neighbours and clusters are numbers from 0, which stands for none")
    with at_work("opening the table") as shown:
        table = opened(context, role, tensor, view)
        shown.say(f"finding the widest axes of {table.rows:,} rows")
        placed = project(table, most=points, seed=seed, centred=mean, all_rows=all_rows)
        grouped = near = None
        if clusters:
            shown.say(f"putting rows into {clusters} clusters")
            grouped = cluster(table, clusters, seed=seed, all_rows=all_rows)
        if neighbours:
            # Most of the time goes here; who does not want to wait can leave them out.
            shown.say(f"finding the neighbours of {len(placed):,} rows (--neighbours 0: none)")
            near = nearest(table, placed, neighbours, shown.share)
        shown.say("drawing the page")
        page = map_html(table, placed, near=near, clusters=grouped)
    write_whole(html, page)
    lines = facts(table, placed, near, grouped)
    if as_json:
        about: dict[str, object] = {name.replace(" ", "_"): words for name, words in lines}
        counts = {"shown": len(placed), "of": placed.chosen.of, "shares": placed.axes.shares}
        print_json("map", {"page": str(html), "bytes": len(page.encode()), **counts, **about})
        return
    show(f"{html}: {len(placed):,} rows, {len(page.encode()):,} bytes")
    show(*(Prose(words, f"{name:<12}", " " * 12) for name, words in lines[:-1]))
    close(context, table)


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
    from ropewalk.report.table_map import document, values
    from ropewalk.tables.clusters import cluster

    with at_work("opening the table") as shown:
        table = opened(context, role, tensor, view)
        shown.say(f"putting rows into {number} clusters")
        found = cluster(table, number, seed=seed, fitted=fitted, all_rows=all_rows)
    print_answer("clusters", document(found, table), values(found, table), as_json=as_json)
    close(context, table, as_json=as_json)
