"""Which rows an export holds, where it came from, and where it may go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.principal import finite_rows
from ropewalk.tables.sample import RowSample

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

STRETCH = 8192
"""Rows that are held at a time."""


@short
@dataclass(frozen=True, slots=True)
class ExportedFile:
    """An export: the file or folder, its bytes, its rows; `said` is what else must be known."""

    path: Path
    size: int
    rows: int
    said: tuple[str, ...] = ()


@short
@dataclass(frozen=True, slots=True, eq=False)
class Finite:
    """The chosen rows that are finite, ascending, their norms (n,) fp32, and the rows that are not.

    Tools that draw or compare rows cannot take NaN and infinity.
    """

    ids: Tensor
    norms: Tensor
    not_finite: tuple[int, ...]

    @property
    def said(self) -> tuple[str, ...]:
        """A sentence for rows that are left out, or none."""
        if not self.not_finite:
            return ()
        named = ", ".join(map(str, self.not_finite[:8])) + ", ..." * (len(self.not_finite) > 8)
        return (f"left out, holding NaN, infinity or numbers beyond fp32's squares: rows {named}",)


def finite(table: EmbeddingTable, chosen: RowSample) -> Finite:
    """Look through the chosen rows. Raises UsageError where none is finite."""
    import torch

    ids, norms, lost = [], [], []
    for own, rows in stretches(table, chosen.ids):
        good = finite_rows(rows.float())
        ids.append(own[good])
        norms.append(torch.linalg.vector_norm(rows[good].float(), dim=1))
        lost += own[~good].tolist()
    found = torch.cat(ids)
    if not len(found):
        raise UsageError(f"none of the {len(chosen):,} chosen rows of {table.name} is finite")
    return Finite(found, torch.cat(norms), tuple(lost))


def stretches(table: EmbeddingTable, ids: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Ascending ids and their rows (n, width), up to STRETCH at a time, as they are handed out."""
    import torch

    wanted = torch.zeros(table.rows, dtype=torch.bool)
    wanted[ids] = True
    for start, rows in table.tiles(STRETCH):
        own = wanted[start : start + len(rows)]
        if bool(own.any()):
            yield own.nonzero().flatten() + start, rows[own]


def provenance(table: EmbeddingTable, rows: str) -> dict[str, str]:
    """Where an export came from, for formats that can hold it; `rows` is the rule of choice."""
    from ropewalk import __version__

    done = ", ".join(t.name for t in table.transforms)
    return {
        "written_by": f"ropewalk {__version__}",
        "model": table.tables.title,
        "file": table.matrix.path.name,
        "tensor": table.name,
        "role": table.role,
        "shape": f"{table.rows} x {table.width}",
        "storage": table.storage,
        "view": table.view if not done else f"{table.view}: {done}",
        "vocabulary": "none" if table.vocabulary is None else table.vocabulary.source,
        "rows": rows,
    }


def check_target(path: Path, *, force: bool, folder: bool = False) -> None:
    """Refuse a place that cannot be written before anything is read. Raises UsageError."""
    what = "folder" if folder else "file"
    if not path.parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {path.parent}")
    if folder:
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file; name a folder")
        if path.is_dir() and any(path.iterdir()):
            raise UsageError(f"{path} is a folder with files in it; name a new one")
        return
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a {what}")
    if path.exists() and not force:
        raise UsageError(
            f"{path} is there already; name another file, or write over it with --force"
        )
