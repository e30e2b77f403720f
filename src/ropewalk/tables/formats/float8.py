"""Floats of 8 bits: each of the 256 as float32, by the tables of the paper (2209.05433, table 1).

E4M3 has no infinity and one NaN of each sign; E5M2 is the upper half of a float16. A table of
them is read only where no scale lies beside it: with one, its numbers are the products with a
scale, one for the whole, a row or a block, and which of these only the code that packed it tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.tables.formats.base import two_axes
from ropewalk.tables.stored import FileMatrix, Reads

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
