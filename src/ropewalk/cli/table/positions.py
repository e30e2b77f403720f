"""`ropewalk table MODEL positions`: a learned position table, or what the model uses instead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.output import show
from ropewalk.cli.table.options import AsJson, Tensor, at_work, model_of, print_answer, print_json
from ropewalk.report.document import Prose

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable, ModelTables


def positions_command(
    context: typer.Context,
    tensor: Tensor = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the heat map and the curves as a page, too."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure learned positions: trained rows, norms, likeness by distance, spectrum."""
    from ropewalk.errors import UsageError
    from ropewalk.tables.open import open_tables

    with at_work("opening the tables"):
        tables = open_tables(model_of(context))
    table = _table(tables, tensor)
    if table is None:
        instead = _instead(tables)
        if html is not None:
            raise UsageError(f"{instead}; there is nothing to draw")
        if as_json:
            print_json("positions", {"model": tables.title, "table": None, "instead": instead})
        else:
            show(Prose(instead))
        return
    _show(table, html, as_json=as_json)


def _show(table: EmbeddingTable, html: Path | None, *, as_json: bool) -> None:
    from ropewalk.report.table_positions import document, values
    from ropewalk.tables.positions_table import measure

    with at_work("measuring the positions"):
        found = measure(table)
    made = document(found, table.tables.title, table.line())
    if html is not None:
        from ropewalk.files import write_whole
        from ropewalk.report import html as page_of

        write_whole(html, page_of(made))
    about: dict[str, object] = {"model": table.tables.title, "table": table.name}
    print_answer("positions", made, about | values(found), as_json=as_json)


def _table(tables: ModelTables, tensor: str | None) -> EmbeddingTable | None:
    """The table of positions; None for a model that has none.

    Raises UsageError where several fit, or `tensor` does not.
    """
    from ropewalk.errors import UsageError

    try:
        return tables.table("positions", tensor)
    except UsageError:
        if tensor is not None or tables.candidates("positions"):
            raise
        return None


def _instead(tables: ModelTables) -> str:
    """One sentence: there is no table, and what the configuration says is used instead."""
    from ropewalk.errors import RopewalkError
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.report.audit import encoding_words

    path = tables.checkpoint.path
    none = f"{tables.title} has no table of learned positions"
    try:
        spec = read_spec(
            resolve(str(path if path.is_dir() or path.suffix == ".gguf" else path.parent))
        )
    except RopewalkError:
        return f"{none}, and no configuration beside it says what it uses instead"
    used = dict.fromkeys(encoding_words(group.encoding) for group in spec.groups)
    return f"{none}; its configuration says what it uses instead: {'; '.join(used)}"
