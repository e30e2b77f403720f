"""`ropewalk table A compare B`: two checkpoints' rows over the tokens they share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ropewalk.cli.completion import tables
from ropewalk.cli.output import show
from ropewalk.cli.table.options import (
    TABLE,
    AsJson,
    Role,
    RoleName,
    View,
    ViewName,
    answer,
    at_work,
    identity_note,
    model_of,
    opened,
)
from ropewalk.report.document import Prose


def compare_command(
    context: typer.Context,
    other: Annotated[
        str,
        typer.Argument(
            metavar="OTHER",
            help="The other checkpoint, in any form MODEL has.",
            autocompletion=tables,
        ),
    ],
    neighbours: Annotated[
        int, typer.Option("--neighbours", "-k", metavar="K", help="Neighbours that are compared.")
    ] = 10,
    sample: Annotated[
        int, typer.Option(metavar="N", help="Tokens whose neighbours are compared.")
    ] = 500,
    seed: Annotated[int, typer.Option(help="Of that sample.")] = 0,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Tokens in each list.")] = 10,
    role: Role = RoleName.INPUT,
    tensor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="MODEL's tensor, where several fit the role.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    other_tensor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="OTHER's tensor, where several fit the role.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """Compare two checkpoints' rows: shared tokens, what moved most, as is and rotated.

    Tokens are paired by their bytes, never by id. Both tables are read tile by tile.
    """
    from ropewalk.tables.movement import compare
    from ropewalk.tables.open import open_table

    with at_work("opening the tables") as shown:
        one = opened(context, role, tensor, view)
        two = open_table(other, role.value, tensor=other_tensor, view=view.value)
        shown.say("comparing the rows")
        found = compare(one, two, k=neighbours, sample=sample, seed=seed)
    from ropewalk.report.table_compare import values

    about: dict[str, Any] = {"names": (model_of(context), other), "top": top}
    held = values(found, seed=seed, **about) if as_json else {}
    answer(context, "compare", found, lambda: held, as_json=as_json, **about)
    if not as_json:
        notes = (Prose(f"{name}: {t.line()}") for name, t in (("A", one), ("B", two)))
        show("", *notes, *identity_note(context))
