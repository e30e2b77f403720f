"""`ropewalk table A compare B`: two checkpoints' rows over the tokens they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    at_work,
    identity_note,
    model_of,
    opened,
    print_answer,
)
from ropewalk.report.document import Prose

if TYPE_CHECKING:
    from ropewalk.tables.movement import Movement, TableComparison


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
    from ropewalk.report.table_compare import document

    names = (model_of(context), other)
    values = _values(found, names, top, seed)
    print_answer("compare", document(found, names, top), values, as_json=as_json)
    if not as_json:
        notes = (Prose(f"{name}: {table.line()}") for name, table in (("A", one), ("B", two)))
        show("", *notes, *identity_note(context))


def _values(
    found: TableComparison, names: tuple[str, str], top: int, seed: int
) -> dict[str, object]:
    tables = [
        {"model": name, "tensor": table.name, "shape": table.shape, "view": table.view}
        for name, table in zip(names, (found.one, found.other), strict=True)
    ]
    shared, overlap, kept = found.shared, found.overlap, list(found.kept)
    return {
        "tables": tables,
        "shared": len(shared),
        "tokens": [shared.tokens, shared.other_tokens],
        "paired": shared.rule,
        "several_rows": shared.several,
        "compared": len(kept),
        "zero": [_token(found, pair) for pair in found.zero],
        "not_finite": [_token(found, pair) for pair in found.not_finite],
        "norm_ratio_median": float(found.ratios[kept].median()) if kept else None,
        "raw": _moved(found, found.raw, top),
        "aligned": _moved(found, found.aligned, top),
        "overlap": overlap
        and {
            "k": overlap.k,
            "sample": len(overlap.pairs),
            "seed": seed,
            "mean": overlap.mean,
            "lowest": [_token(found, p) | {"share": s} for p, s in overlap.lowest(top)],
        },
    }


def _moved(found: TableComparison, moved: Movement | None, top: int) -> dict[str, object] | None:
    if moved is None or not found.kept:
        return None
    kept = list(found.kept)

    def listed(pairs: list[int]) -> list[dict[str, object]]:
        return [
            _token(found, p)
            | {"cosine": float(moved.cosines[p]), "distance": float(moved.distances[p])}
            for p in pairs
        ]

    return {
        "mean_cosine": float(moved.cosines[kept].mean()),
        "mean_distance": float(moved.distances[kept].mean()),
        "residual": moved.residual,
        "most_rotated": listed(moved.most_rotated(top)),
        "furthest": listed(moved.furthest(top)),
    }


def _token(found: TableComparison, pair: int) -> dict[str, object]:
    return {
        "token": found.label(pair),
        "ids": [found.shared.rows[pair], found.shared.others[pair]],
    }
