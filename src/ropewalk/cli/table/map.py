"""`ropewalk table MODEL map --html FILE`: rows on two axes, as a page to pan, zoom and search."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.table.options import (
    AllRows,
    AsJson,
    Role,
    RoleName,
    Tensor,
    View,
    ViewName,
    close,
    opened,
    print_json,
)

if TYPE_CHECKING:
    from ropewalk.tables.projection import Told

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
    from ropewalk.report.table_map_html import facts, map_html
    from ropewalk.report.text import visible
    from ropewalk.tables.clusters import cluster
    from ropewalk.tables.projection import nearest, project

    if neighbours < 0 or clusters < 0:
        raise UsageError("neighbours and clusters are numbers from 0, which stands for none")
    if html.is_dir() or not html.parent.is_dir():
        raise UsageError(f"{html} cannot be a page: name a file in a folder that is there")
    table = opened(context, role, tensor, view)
    shown = project(table, most=points, seed=seed, centred=mean, all_rows=all_rows)
    grouped = cluster(table, clusters, seed=seed, all_rows=all_rows) if clusters else None
    near = nearest(table, shown, neighbours, _telling()) if neighbours else None
    page = map_html(table, shown, near=near, clusters=grouped)
    write_whole(html, page)
    lines = facts(table, shown, near, grouped)
    if as_json:
        about: dict[str, object] = {name.replace(" ", "_"): words for name, words in lines}
        counts = {"shown": len(shown), "of": shown.chosen.of, "shares": shown.axes.shares}
        print_json("map", {"page": str(html), "bytes": len(page.encode()), **counts, **about})
        return
    typer.echo(f"{visible(str(html))}: {len(shown):,} rows, {len(page.encode()):,} bytes")
    for name, words in lines[:-1]:
        typer.echo(f"{name:<12}{visible(words)}")
    close(context, table)


def _telling() -> Told:
    """Says on stderr, once, how long the neighbours will take, where that is long."""
    begun = time.monotonic()
    said = False

    def told(done: int, of: int) -> None:
        nonlocal said
        left = (time.monotonic() - begun) * (of - done) / done
        if not said and left > 5:
            said = True
            typer.echo(
                f"ropewalk: neighbours of {of:,} rows, about {left:.0f} s more; "
                "--neighbours 0 leaves them out, --points N shows fewer rows",
                err=True,
            )

    return told
