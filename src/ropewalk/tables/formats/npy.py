"""npy: one array in a file, as numpy.save writes it. Arrays of Python objects are pickles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.tables.formats.base import AGAIN, no_such, plain_matrix
from ropewalk.tables.stored import FileMatrix, Reads

_TYPES = {"<f8": "F64", "<f4": "F32", "<f2": "F16"}


@dataclass(frozen=True, slots=True)
class NpyCheckpoint:
    """One array, which goes by the file's name; see Checkpoint."""

    path: Path
    storage: str
    sizes: tuple[int, ...]
    offset: int
    reads: Reads

    def names(self) -> Sequence[str]:
        """The one name."""
        return [self.path.name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The array's shape. Raises UsageError for another name."""
        if name != self.path.name:
            raise no_such(name, self.path, self.names())
        return self.sizes

    def matrix(self, name: str) -> FileMatrix:
        """The array. Raises UsageError for another name, and for a shape that is no matrix."""
        shape = self.shape(name)
        made = plain_matrix(name, self.path, self.offset, shape, self.storage, self.reads)
        if made is None:
            raise UsageError(f"{self.path} holds {self.storage}, which is no table of floats")
        return made


def open_npy(path: Path) -> NpyCheckpoint:
    """One npy file.

    Raises ModelFileError for a file that is damaged or truncated, for arrays of Python objects
    (pickles, whose code would run), of another type than little-endian floats, or stored column
    by column, which has no rows to read one by one.
    """
    import numpy as np
    from numpy.lib import format as npy

    reads = Reads()
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            # The third version differs by its header's encoding, and has no reader of its own.
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
            offset, size = file.tell(), file.seek(0, 2)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        said = " ".join(str(error).split())[:200]
        raise ModelFileError(f"{path} is no npy file ({said}); {AGAIN}") from error
    reads.opened(path, offset)
    if dtype.hasobject:
        raise ModelFileError(
            f"{path} holds Python objects, which are pickled and could run code when read; such "
            "files are refused: save the numbers as float32"
        )
    if dtype.str not in _TYPES:
        raise ModelFileError(
            f"{path} holds {dtype}; little-endian float64, float32 and float16 are read"
        )
    if fortran and len(shape) > 1:
        raise ModelFileError(
            f"{path} is stored column by column, so that no row can be read by itself; save it "
            "again with numpy.ascontiguousarray"
        )
    wanted = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if wanted > size:
        raise ModelFileError(
            f"{path}: an array of shape {shape} ends at byte {wanted}, and the file has {size}; "
            f"{AGAIN}"
        )
    return NpyCheckpoint(path, _TYPES[dtype.str], tuple(shape), offset, reads)
