"""Packed rows as a Parquet file: written in row groups, beside its place, then renamed.

Columns: `input_ids` (padding included) and `seq_lens`, `documents`, `starts` of the pieces in a
row: how many tokens each has, which document it is of, and where in the document it begins. The
file's metadata holds under "ropewalk.packing" one JSON document: how the rows were made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ropewalk.errors import MissingPartError, StoreError, UsageError
from ropewalk.files import written_beside
from ropewalk.packing.pack import PackedRow

KEY = "ropewalk.packing"
SCHEMA = "ropewalk.packing/1"

GROUP_TOKENS = 1 << 22
"""Tokens of a row group: what a reader or writer holds at a time (16 MiB)."""


def arrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet. Raises MissingPartError without them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingPartError(
            "Parquet needs the package pyarrow, which is not installed; "
            'install it with: pip install "ropewalk[look]"'
        ) from error
    return pa, pq


def check_target(path: Path, inputs: tuple[Path, ...] = (), *, force: bool = False) -> None:
    """Refuse at once what could only fail in the end.

    Raises UsageError for a folder, a file that is there (unless `force`), and one of `inputs`.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
    if path.exists():
        resolved = path.resolve()
        if any(resolved == each.resolve() for each in inputs):
            raise UsageError(f"{path} is also read; write the rows into another file")
        if not force:
            raise UsageError(f"{path} is there already; give --force to write over it")


class RowWriter:
    """Takes rows and writes a row group when one is full. Made by `row_file`."""

    def __init__(self, writer: Any, length: int) -> None:
        self._writer = writer
        self._group = max(1, GROUP_TOKENS // length)
        self._rows: list[PackedRow] = []

    def add(self, row: PackedRow) -> None:
        """Write a row, at the latest at the end."""
        self._rows.append(row)
        if len(self._rows) == self._group:
            self.flush()

    def flush(self) -> None:
        """Write what is held as a row group."""
        if not self._rows:
            return
        pa, _ = arrow()
        pieces = [row.layout.pieces for row in self._rows]
        counts = np.array([len(each) for each in pieces])
        lists = {
            "input_ids": (
                np.concatenate([row.token_ids for row in self._rows]),
                np.array([len(row.token_ids) for row in self._rows]),
            ),
            "seq_lens": (np.array([p.length for each in pieces for p in each], "i4"), counts),
            "documents": (np.array([p.document for each in pieces for p in each], "i8"), counts),
            "starts": (np.array([p.start for each in pieces for p in each], "i8"), counts),
        }
        arrays = [
            pa.ListArray.from_arrays(np.append(0, np.cumsum(sizes)).astype("i4"), values)
            for values, sizes in lists.values()
        ]
        self._writer.write_table(pa.table(arrays, schema=schema()))
        self._rows = []

    def describe(self, document: dict[str, object]) -> None:
        """What the file says of itself; given at the end, when all is counted."""
        self._writer.add_key_value_metadata({KEY: json.dumps({"schema": SCHEMA, **document})})


def schema() -> Any:
    """The columns, as pyarrow has them."""
    pa, _ = arrow()
    kinds = {
        "input_ids": pa.int32(), "seq_lens": pa.int32(), "documents": pa.int64(),
        "starts": pa.int64(),
    }  # fmt: skip
    return pa.schema(
        [pa.field(name, pa.list_(pa.field("element", kind)), False) for name, kind in kinds.items()]
    )


@contextmanager
def row_file(path: Path, length: int) -> Iterator[RowWriter]:
    """A file of rows of `length` tokens, which is at `path` when the block ends well.

    After an error, or a kill at any moment, what was at `path` is as it was. Raises StoreError
    where the file cannot be written, MissingPartError without pyarrow.
    """
    pa, pq = arrow()
    with written_beside(path) as beside:
        try:
            # Ids hardly repeat in a row's stretch: no dictionary of them.
            with pq.ParquetWriter(
                beside, schema(), compression="zstd", compression_level=1, use_dictionary=False
            ) as writer:
                rows = RowWriter(writer, length)
                yield rows
                rows.flush()
        except pa.ArrowException as error:
            raise StoreError(f"{path} cannot be written: {error}; nothing is left of it") from error
