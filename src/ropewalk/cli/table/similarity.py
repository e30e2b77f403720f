"""`ropewalk table MODEL similarity A B ...`: cosines of a list of words with one another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli.output import console
from ropewalk.cli.table.near import Exact, Ids, Texts, asked_for
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


def similarity_command(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD...", help="Words that are tokens; or give --id or --text."),
    ] = None,
    ids: Ids = None,
    texts: Texts = None,
    exact: Exact = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the heat map as a page, too.")
    ] = None,
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """The cosine of two words, or a heat map of more, with the rows of --id and --text behind."""
    from ropewalk.report.table_similarity import (
        similarity_document,
        similarity_html,
        similarity_lines,
    )
    from ropewalk.tables.answer import cosines_between

    with at_work("opening the table"):
        table = opened(context, role, tensor, view)
    asked = asked_for(table, words, ids, texts, exact=exact)
    cosines = cosines_between(table, asked)
    if html is not None:
        from ropewalk.files import write_whole

        write_whole(html, similarity_html(asked, cosines, table))
    if as_json:
        print_json("similarity", similarity_document(asked, cosines, table))
        return
    out = console()
    for line in similarity_lines(asked, cosines, table, out.width):
        out.print(line, soft_wrap=True, markup=False)
    close(context, table)
