"""A matrix as a file keeps it: read by rows, and every byte that is read is counted.

In all formats but torch's own, the rows of a table lie one behind the other in one file, each in
the same number of bytes; a format only has to say where, and how a row's bytes become numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.short import short
from ropewalk.tables.index import integer, no_row

if TYPE_CHECKING:
    import torch

Way = Literal["mmap", "stream"]
"""How a whole table is read: mapped, page by page when touched, or once from end to end."""

WAYS: tuple[Way, ...] = ("mmap", "stream")

Decode = Callable[[Array], Array]
"""Bytes (rows, row_bytes), uint8, to numbers (rows, width)."""

PLAIN = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Plain floats by their names in safetensors and GGUF, and what holds them in numpy."""


@short
@dataclass(slots=True)
class Reads:
    """What was read so far: bytes of each tensor, bytes of headers, and the files opened."""

    tensors: dict[str, int] = field(default_factory=dict)
    header: int = 0
    files: list[Path] = field(default_factory=list)

    def opened(self, path: Path, header: int) -> None:
        """Note a file and what was read of it besides the table."""
        self.header += header
        if path not in self.files:
            self.files.append(path)

    def add(self, tensor: str, count: int) -> None:
        """Note `count` bytes more of a tensor."""
        self.tensors[tensor] = self.of(tensor) + count

    def of(self, tensor: str) -> int:
        """Bytes read of a tensor; more than its size once rows are read again."""
        return self.tensors.get(tensor, 0)

    def line(self, tensor: str, size: int) -> str:
        """In words, for a tensor of `size` bytes."""
        read = self.of(tensor)
        weights = [p for p in self.files if p.suffix != ".json"]
        return (
            f"read {read:,} of the table's {size:,} bytes ({read / size:.2f}), "
            f"{len(weights)} file{'s' * (len(weights) != 1)} of weights opened"
        )


class Matrix(Protocol):
    """Numbers (rows, width) in a file. `storage` names how they are kept there: "BF16", "Q6_K".

    They are handed out as arrays, bfloat16 as in `ropewalk.kernels.arrays`.
    """

    @property
    def name(self) -> str:
        """The tensor's name in its file."""
        ...

    @property
    def path(self) -> Path:
        """The file that holds it."""
        ...

    @property
    def rows(self) -> int:
        """How many rows there are."""
        ...

    @property
    def width(self) -> int:
        """Numbers in a row."""
        ...

    @property
    def storage(self) -> str:
        """How the file keeps them."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """What is handed out, as torch calls it: as stored; float32 for quantised storage."""
        ...

    @property
    def plain(self) -> bool:
        """Whether the file's bytes are the numbers that are handed out."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the whole matrix in its file."""
        ...

    @property
    def reads(self) -> Reads:
        """The counter, shared by all that one checkpoint hands out."""
        ...

    def read(self, start: int, stop: int) -> Array:
        """The rows from `start` up to `stop`, (stop - start, width)."""
        ...

    def whole(self, way: Way = "mmap") -> Array:
        """All rows."""
        ...


@short
@dataclass(frozen=True, slots=True)
class FileMatrix:
    """A matrix whose rows lie at `offset` of `path`, `row_bytes` each. See Matrix."""

    name: str
    path: Path
    offset: int
    rows: int
    width: int
    row_bytes: int
    storage: str
    decode: Decode
    reads: Reads

    @property
    def size(self) -> int:
        """Bytes of the whole matrix in its file."""
        return self.rows * self.row_bytes

    @property
    def plain(self) -> bool:
        """As Matrix."""
        return self.storage in PLAIN

    @property
    def dtype(self) -> torch.dtype:
        """As Matrix."""
        import torch

        plain = {"F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16}
        return plain.get(self.storage, torch.float32)

    def read(self, start: int, stop: int) -> Array:
        """As Matrix. Raises ModelFileError when the file no longer holds the rows."""
        wanted = (stop - start) * self.row_bytes
        if not wanted:
            return np.empty((0, self.width), PLAIN.get(self.storage, "<f4"))
        held = bytearray(wanted)
        view, got = memoryview(held), 0
        try:
            with self.path.open("rb", buffering=0) as file:
                place = self.offset + start * self.row_bytes
                # One call reads 2 GiB at most.
                while got < wanted and (n := os.preadv(file.fileno(), [view[got:]], place + got)):
                    got += n
        except OSError as error:
            raise ModelFileError(
                f"{self.path} cannot be read: {error.strerror or error}"
            ) from error
        if got < wanted:
            raise ModelFileError(
                f"{self.path}: tensor {self.name!r} ends {wanted - got} bytes early; the file "
                "was changed while it was open, or is damaged: fetch it again"
            )
        self.reads.add(self.name, wanted)
        return self.decode(np.frombuffer(held, np.uint8).reshape(stop - start, self.row_bytes))

    def whole(self, way: Way = "mmap") -> Array:
        """As Matrix. Mapped, plain floats are the file's own pages; writing changes no file."""
        check_way(way)
        if way == "stream" or not self.size:
            return self.read(0, self.rows)
        try:
            pages = np.memmap(self.path, np.uint8, "c", self.offset, (self.rows, self.row_bytes))
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{self.path} cannot be mapped: {error}") from error
        self.reads.add(self.name, self.size)
        return self.decode(pages.view(np.ndarray))


def check_way(way: str) -> None:
    """Refuse any other way to read. Raises UsageError."""
    if way not in WAYS:
        raise UsageError(f"the way to read is {way!r}; choose 'mmap' or 'stream'")


def check_rows(ids: Iterable[int], rows: int, what: str) -> list[int]:
    """The ids as a list, each the number of a row, none counted from the end.

    Raises UsageError for what is no whole number (a mask, floats), RowError that names the first
    that has no row.
    """
    listed = [integer(i, what) for i in ids]
    for place, row in enumerate(listed):
        if not 0 <= row < rows:
            raise no_row(row, place, rows, what)
    return listed


def gather(matrix: Matrix, ids: Sequence[int] | Array) -> Array:
    """The rows `ids` (n, width) in their order; neighbours are read at once, repeats once."""
    different, places = np.unique(np.asarray(ids, np.int64), return_inverse=True)
    if not len(different):
        return matrix.read(0, 0)
    ends = np.flatnonzero(np.diff(different) != 1) + 1
    starts, stops = different[np.r_[0, ends]], different[np.r_[ends, len(different)] - 1] + 1
    runs = zip(starts.tolist(), stops.tolist(), strict=True)
    read = [matrix.read(start, stop) for start, stop in runs]
    found = read[0] if len(read) == 1 else np.concatenate(read)
    return found if np.array_equal(places, np.arange(len(found))) else found[places]
