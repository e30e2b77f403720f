"""safetensors: 8 bytes of length, a JSON header, then the tensors (the format's README).

The header is read here and held against the file's size: the library's own reader maps the whole
file, and does not tell where in it a tensor lies. A folder of shards has an index that names the
shard of each tensor, so that only one shard is opened.

Floats of 8 bits become float32 by the tables of the paper (2209.05433, table 1): E4M3 has no
infinity and one NaN of each sign; E5M2 is the upper half of a float16. A table of them is read only
where no scale lies beside it: with one, its numbers are the products with a scale, one for the
whole, a row or a block, and which of these only the code that packed it tells.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

import numpy as np

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.short import short
from ropewalk.tables.formats.shards import AGAIN, Shards, index_homes, plain_matrix, two_axes
from ropewalk.tables.stored import FileMatrix, Reads

MAX_HEADER = 100_000_000
"""Bytes; the format's own limit."""

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16,
    "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
    "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""Bits an element of each dtype takes."""


@short
@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: its dtype as the file names it, shape, and first byte in the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


def read_entries(path: Path, reads: Reads) -> dict[str, Entry]:
    """The tensors that a safetensors file says it has, each inside the file.

    Raises ModelFileError for a file that cannot be read, is truncated, states a header larger
    than itself, or whose header is not what the format says.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            if size < 10 or length > min(size - 8, MAX_HEADER):
                _fail(
                    path,
                    f"a header of {length} bytes is stated, and the file has {size}"
                    if size >= 10
                    else f"the file has {size} bytes, too few for a header",
                )
            raw = file.read(length)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    reads.opened(path, 8 + length)
    try:
        listed = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: the header is no JSON ({error}); {AGAIN}") from error
    if not isinstance(listed, dict):
        _fail(path, "the header is no JSON object")
    listed.pop("__metadata__", None)
    return {name: _entry(path, name, said, 8 + length, size) for name, said in listed.items()}


def _entry(path: Path, name: str, said: object, start: int, size: int) -> Entry:
    about = said if isinstance(said, dict) else {}
    dtype, shape, span = (about.get(key) for key in ("dtype", "shape", "data_offsets"))
    if (
        not isinstance(dtype, str)
        or not _naturals(shape)
        or not _naturals(span)
        or not isinstance(shape, list)
        or not isinstance(span, list)
        or len(span) != 2
    ):
        _fail(path, f"tensor {name!r} has no dtype, shape and data_offsets of the format")
    if dtype in BITS and math.prod(shape) * BITS[dtype] != (span[1] - span[0]) * 8:
        _fail(
            path, f"tensor {name!r} of shape {tuple(shape)} and type {dtype} cannot take "
            f"{span[1] - span[0]} bytes"
        )  # fmt: skip
    if span[0] > span[1] or start + span[1] > size:
        _fail(
            path,
            f"tensor {name!r} is to end at byte {start + span[1]}, and the file has {size}",
        )
    return Entry(dtype, tuple(shape), start + span[0])


def _naturals(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _fail(path: Path, what: str) -> NoReturn:
    raise ModelFileError(f"{path}: {what}; {AGAIN}")


class SafetensorsCheckpoint(Shards[Entry]):
    """A file, or shards."""

    __slots__ = ()

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor. Raises as `matrix`."""
        return self.find(name).shape

    def matrix(self, name: str) -> FileMatrix:
        """A tensor as a matrix.

        Floats of 8 bits are handed out as float32. Raises UsageError for an unknown name, a shape
        that is no matrix, a type that is no float, or one of 8 bits with a scale beside it,
        ModelFileError for a shard that is missing, damaged, or lacks the tensor.
        """
        entry = self.find(name)
        home = self.homes[name]
        if entry.dtype in FLOAT8:
            refuse_scaled(name, home, entry.dtype, self.names())
            return float8_matrix(name, home, entry.offset, entry.shape, entry.dtype, self.reads)
        made = plain_matrix(name, home, entry.offset, entry.shape, entry.dtype, self.reads)
        if made is None:
            raise UsageError(
                f"{home}: tensor {name!r} is stored as {entry.dtype}; tables of F64, F32, F16 and "
                "BF16, and of F8_E4M3 and F8_E5M2 without a scale, are read. Packed weights need "
                "the code that packed them: use the original checkpoint, or a GGUF file"
            )
        return made

    def open(self, home: Path) -> dict[str, Entry]:
        """See `read_entries`."""
        return read_entries(home, self.reads)


def open_file(path: Path) -> SafetensorsCheckpoint:
    """One safetensors file. Raises ModelFileError."""
    reads = Reads()
    entries = read_entries(path, reads)
    return SafetensorsCheckpoint(path, dict.fromkeys(entries, path), reads, {path: entries})


def open_index(index: Path) -> SafetensorsCheckpoint:
    """The shards named by a `*.safetensors.index.json`. Raises ConfigError, ModelFileError."""
    reads = Reads()
    return SafetensorsCheckpoint(index, index_homes(index, reads), reads)


def open_files(folder: Path, paths: Sequence[Path]) -> SafetensorsCheckpoint:
    """Several files without an index. Raises ModelFileError for a name that two of them have."""
    reads = Reads()
    homes: dict[str, Path] = {}
    entries = {path: read_entries(path, reads) for path in paths}
    for path, listed in entries.items():
        for name in listed:
            if name in homes:
                raise ModelFileError(
                    f"{folder} has no index, and both {homes[name].name} and {path.name} hold "
                    f"{name!r}; give the one file that you mean"
                )
            homes[name] = path
    return SafetensorsCheckpoint(folder, homes, reads, entries)


FLOAT8 = ("F8_E4M3", "F8_E5M2")
"""Their names in safetensors."""

_SCALES = ("_scale_inv", "_scale", "_scale_2", "_scales")


@cache
def float8_values(storage: str) -> Array:
    """(256,) float32: what each byte stands for in a type of FLOAT8."""
    every = np.arange(256, dtype=np.uint16)
    if storage == "F8_E5M2":
        return (every << 8).view(np.float16).astype(np.float32)
    sign = np.where(every & 0x80, np.float32(-1.0), np.float32(1.0))
    exponent = ((every >> 3) & 15).astype(np.int32)
    fraction = (every & 7).astype(np.float32) / np.float32(8.0)
    # Without an exponent, a number below 2^-6 that is written without the leading 1.
    size = np.ldexp(np.where(exponent == 0, fraction, 1.0 + fraction), np.maximum(exponent, 1) - 7)
    size[(every & 0x7F) == 0x7F] = np.nan
    values: Array = (sign * size).astype(np.float32)
    return values


def scale_beside(name: str, names: Sequence[str]) -> str | None:
    """The tensor by which that of this name is multiplied, as quantisers name it, or None."""
    stem, _, last = name.rpartition(".")
    before = f"{stem}." if stem else ""
    known = {f"{name}{end}" for end in _SCALES} | {f"{before}scale_{last}", f"{before}scale"}
    return next((each for each in names if each in known), None)


def float8_matrix(
    name: str, path: Path, offset: int, shape: tuple[int, ...], storage: str, reads: Reads
) -> FileMatrix:
    """The matrix of a type in FLOAT8, handed out as float32. Raises UsageError for its shape."""
    values = float8_values(storage)

    def decode(raw: Array) -> Array:
        numbers: Array = values[raw]
        return numbers

    rows, width = two_axes(name, shape)
    return FileMatrix(name, path, offset, rows, width, width, storage, decode, reads)


def refuse_scaled(name: str, path: Path, storage: str, names: Sequence[str]) -> None:
    """Refuse floats of 8 bits beside which a scale lies. Raises UsageError."""
    scale = scale_beside(name, names)
    if scale is not None:
        raise UsageError(
            f"{path}: tensor {name!r} is stored as {storage}, and {scale} beside it is what its "
            "numbers are multiplied by, in a way that only the code that packed them tells; use "
            "the original checkpoint, or a GGUF file"
        )
