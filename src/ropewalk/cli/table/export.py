"""`ropewalk table MODEL export --parquet FILE ...`: the table in files of other tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    print_json,
)
from ropewalk.report.document import Prose

if TYPE_CHECKING:
    from ropewalk.cli.progress import Progress
    from ropewalk.tables.export.rows import ExportedFile
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.sample import RowSample


def export_command(
    context: typer.Context,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Columns that embedding-atlas opens: tokens, map, norm."),
    ] = None,
    projector: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The three files of TensorBoard's projector."),
    ] = None,
    npy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All rows as one array of numpy.")
    ] = None,
    safetensors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The rows, and where they came from.")
    ] = None,
    word2vec: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text; refused where a key has a blank.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(metavar="N", help="Write so many rows, drawn by --seed.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Parquet: the rows themselves, too.")
    ] = False,
    neighbours: Annotated[
        int, typer.Option(metavar="K", help="Parquet: so many nearest of each row; 0 for none.")
    ] = 0,
    all_rows: AllRows = False,
    force: Annotated[bool, typer.Option("--force", help="Write over existing files.")] = False,
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """Write a table for other tools; each file whole or not at all, and what it leaves out said."""
    from ropewalk.errors import UsageError
    from ropewalk.tables.sample import choose_rows

    if npy is not None and sample is not None:
        raise UsageError(
            "an npy file of sampled rows could not say which rows they are; --safetensors can"
        )
    if neighbours < 0:
        raise UsageError(f"{neighbours} neighbours were asked for; 0 stands for none")
    files = {"npy": npy, "safetensors": safetensors, "word2vec": word2vec, "parquet": parquet}
    targets = _targets(files, projector, force=force)
    with at_work("opening the table") as shown:
        table = opened(context, role, tensor, view)
        chosen = choose_rows(table, sample, seed=seed, all_rows=all_rows)
        written = {
            name: _write(name, path, table, chosen, shown, neighbours=neighbours, vectors=vectors)
            for name, path in targets.items()
        }
    if as_json:
        print_json("export", _document(table, written))
        return
    _tell(written)
    close(context, table)


def _targets(
    files: Mapping[str, Path | None], projector: Path | None, *, force: bool
) -> dict[str, Path]:
    """Where to write what was asked for, in order; nothing is there yet, or `force` was said."""
    from ropewalk.errors import UsageError
    from ropewalk.tables.export.rows import check_target

    targets = {name: path for name, path in files.items() if path is not None}
    if not targets and projector is None:
        raise UsageError(
            "export needs to be told where to: --parquet FILE, --projector FOLDER, --npy FILE, "
            "--safetensors FILE or --word2vec FILE"
        )
    for path in targets.values():
        check_target(path, force=force)
    if projector is not None:
        check_target(projector, force=force, folder=True)
        targets["projector"] = projector
    return targets


def _write(
    name: str,
    path: Path,
    table: EmbeddingTable,
    chosen: RowSample,
    shown: Progress,
    *,
    neighbours: int,
    vectors: bool,
) -> ExportedFile:
    """One of the files."""
    shown.say(f"writing {path}")
    from ropewalk.tables.export.arrays import write_npy, write_safetensors, write_word2vec
    from ropewalk.tables.export.parquet import write_parquet
    from ropewalk.tables.export.projector import write_projector
    from ropewalk.tables.export.rows import finite
    from ropewalk.tables.principal import nearest, project

    if name == "npy":
        return write_npy(table, path)
    if name == "safetensors":
        return write_safetensors(table, path, chosen)
    if name == "parquet":
        most = None if chosen.seed is None else len(chosen)
        placed = project(table, most=most, seed=chosen.seed or 0, all_rows=chosen.all_rows)
        near = nearest(table, placed, neighbours, shown.share) if neighbours else None
        return write_parquet(table, path, placed, near=near, vectors=vectors)
    write = write_projector if name == "projector" else write_word2vec
    return write(table, path, finite(table, chosen), chosen.line)


def _document(table: EmbeddingTable, written: Mapping[str, ExportedFile]) -> dict[str, object]:
    files = {
        name: {"path": str(w.path), "bytes": w.size, "rows": w.rows, "said": list(w.said)}
        for name, w in written.items()
    }
    return {"model": table.tables.title, "table": table.name, **files}


def _tell(written: Mapping[str, ExportedFile]) -> None:
    from ropewalk.report.text import visible

    for name, one in written.items():
        counts = f"{one.rows:,} rows, {one.size:,} bytes"
        show(Prose(f"{visible(str(one.path))}: {counts}", f"{name:<12}", " " * 12))
        show(*(Prose(visible(sentence), " " * 12, " " * 12) for sentence in one.said))
