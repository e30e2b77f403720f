"""Packed rows out of a Parquet file again, for training: any row, and a share for each rank.

    file = PackedFile.open(path)
    for number, row in file.rows(start=done, rank=0, ranks=2):
        row.token_ids, row.layout.position_ids(), row.layout.segment_ids()

Rows are read a row group at a time, so that a file of any size takes as much memory as one group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ropewalk.errors import DataFileError, UsageError
from ropewalk.packing.layout import Layout, Piece
from ropewalk.packing.pack import PackedRow
from ropewalk.packing.row_file import KEY, SCHEMA, arrow, schema
from ropewalk.short import short


@short
@dataclass(frozen=True)
class PackedFile:
    """A file that `row_file` wrote. `about` is its JSON document; `len` counts its rows.

    `groups` holds the number of the first row of each row group, and the number of rows last.
    """

    path: Path
    about: dict[str, Any]
    length: int
    left: bool
    multiple: int
    groups: tuple[int, ...]

    @classmethod
    def open(cls, path: Path) -> PackedFile:
        """Read the head of a file. Raises DataFileError for one that holds no packed rows."""
        pa, pq = arrow()
        try:
            with pq.ParquetFile(path) as opened:
                meta = opened.metadata
                own = (meta.metadata or {}).get(KEY.encode())
                names = opened.schema_arrow.names
                sizes = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        except (OSError, pa.ArrowException) as error:
            raise DataFileError(f"{path} cannot be read as Parquet: {error}") from error
        if own is None or names != schema().names:
            raise DataFileError(
                f"{path} holds no packed rows; make it with `ropewalk pack FILES --out {path.name}`"
            )
        try:
            about = json.loads(own)
            if about["schema"] != SCHEMA:
                raise DataFileError(f"{path} is of {about['schema']}; this version reads {SCHEMA}")
            length, left, multiple = (about[key] for key in ("length", "left", "multiple"))
            Layout((), length, left, multiple)
        except (ValueError, LookupError, TypeError) as error:
            raise DataFileError(f"{path}: what it says of its rows is damaged: {error}") from error
        return cls(path, about, length, left, multiple, (0, *np.cumsum(sizes).tolist()))

    def __len__(self) -> int:
        return self.groups[-1]

    def rows(
        self, start: int = 0, *, rank: int = 0, ranks: int = 1, even: bool = False
    ) -> Iterator[tuple[int, PackedRow]]:
        """The rows of one rank, from row `start` of the file on, each with its number.

        Rank r takes the rows whose number is r modulo `ranks`, wherever reading starts: to go on
        after a stop, give the number after the last row that was trained on. `even` leaves out
        the last rows that not every rank would have, where ranks must take equally many steps.

        Raises UsageError for a rank or a row that is not there, DataFileError for damaged rows.
        """
        if ranks < 1 or not 0 <= rank < ranks:
            raise UsageError(f"rank {rank} of {ranks} is impossible: ranks count from 0")
        if not 0 <= start <= len(self):
            raise UsageError(
                f"row {start} is not in {self.path}, which has rows 0 to {len(self) - 1}"
            )
        end = len(self) // ranks * ranks if even else len(self)
        return self._rows(start + (rank - start) % ranks, end, ranks)

    def _rows(self, start: int, end: int, step: int) -> Iterator[tuple[int, PackedRow]]:
        pa, pq = arrow()
        number = start
        try:
            with pq.ParquetFile(self.path) as opened:
                for group, (first, last) in enumerate(
                    zip(self.groups, self.groups[1:], strict=False)
                ):
                    if number >= min(last, end):
                        continue
                    columns = _Columns(opened.read_row_group(group))
                    while number < min(last, end):
                        yield number, self._row(columns, number, number - first)
                        number += step
        except (OSError, pa.ArrowException) as error:
            raise DataFileError(f"{self.path}: row {number} cannot be read: {error}") from error

    def _row(self, columns: _Columns, number: int, place: int) -> PackedRow:
        ids, lengths, documents, starts = columns.row(place)
        try:
            pieces = tuple(
                Piece(document, start, length)
                for document, start, length in zip(
                    documents.tolist(), starts.tolist(), lengths.tolist(), strict=True
                )
            )
            layout = Layout(pieces, self.length, self.left, self.multiple)
        except ValueError as error:
            raise DataFileError(f"{self.path}: row {number} is damaged: {error}") from error
        if len(ids) != self.length or (len(ids) and int(ids.min()) < 0):
            raise DataFileError(
                f"{self.path}: row {number} is damaged: it has {len(ids)} ids where "
                f"{self.length} from 0 on belong"
            )
        return PackedRow(ids, layout)


class _Columns:
    """A row group as arrays of numpy: for each column the values of all rows, and where each
    row's begin.
    """

    def __init__(self, table: Any) -> None:
        self._columns = []
        for name in schema().names:
            column = table.column(name).combine_chunks()
            self._columns.append(
                (column.values.to_numpy(zero_copy_only=False), column.offsets.to_numpy())
            )

    def row(self, place: int) -> list[np.ndarray[Any, Any]]:
        """The four lists of one row; copies, which hold nothing else in memory."""
        return [v[o[place] : o[place + 1]].copy() for v, o in self._columns]
