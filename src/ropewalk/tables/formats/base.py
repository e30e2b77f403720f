"""What every format offers, and plain floats, which several of them share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.tables.stored import PLAIN, FileMatrix, Matrix, Reads

AGAIN = "the file is damaged or incomplete: fetch it again"


class Checkpoint(Protocol):
    """The tensors of one model, by name, in one file or several.

    `path` is the file or folder to speak of. `reads` counts for all that it hands out.
    """

    @property
    def path(self) -> Path:
        """The file or the folder."""
        ...

    @property
    def reads(self) -> Reads:
        """What was read so far."""
        ...

    def names(self) -> Sequence[str]:
        """All tensor names, sorted, without opening a shard."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one, rows first; opens the shard that holds it, and reads its header."""
        ...

    def matrix(self, name: str) -> Matrix:
        """One as a matrix. Raises UsageError for a name or a shape that is none."""
        ...


def plain_matrix(
    name: str, path: Path, offset: int, shape: tuple[int, ...], storage: str, reads: Reads
) -> FileMatrix | None:
    """The matrix of a plain float type, None for another. Raises UsageError for its shape."""
    if storage not in PLAIN:
        return None
    kind = np.dtype(PLAIN[storage])

    def decode(raw: Array) -> Array:
        return raw.view(kind)

    rows, width = two_axes(name, shape)
    row_bytes = width * kind.itemsize
    return FileMatrix(name, path, offset, rows, width, row_bytes, storage, decode, reads)


def two_axes(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """A shape as rows and width: leading axes of 1 are left out, a vector is one row.

    Raises UsageError for anything else, and for a table without numbers.
    """
    inner = list(shape)
    while len(inner) > 2 and inner[0] == 1:
        del inner[0]
    if len(inner) == 1:
        inner.insert(0, 1)
    if len(inner) != 2 or not all(inner):
        raise UsageError(f"tensor {name!r} has shape {shape}, and a table has rows and columns")
    return inner[0], inner[1]


def no_such(name: str, path: Path, names: Sequence[str]) -> UsageError:
    """The error for a tensor that a checkpoint does not have."""
    last = name.rsplit(".", 2)[-2:]
    near = [n for n in names if any(part in n for part in last[:1])] or list(names)
    return UsageError(
        f"{path} has no tensor {name!r}; it has {len(names)}, such as {', '.join(near[:5])}"
    )
