"""npy and npz: one array in a file, as numpy.save writes it, or several in a zip archive.

Arrays of Python objects are pickles, and are refused. What numpy.savez stores lies in the archive
as it would in a file of its own, so that its rows are read one by one and mapped; an array is
opened only when it is asked for. What numpy.savez_compressed writes has no rows to read, and is
refused.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.short import short
from ropewalk.tables.formats.shards import AGAIN, no_such, plain_matrix
from ropewalk.tables.stored import FileMatrix, Reads

if TYPE_CHECKING:
    import numpy as np

_TYPES = {"<f8": "F64", "<f4": "F32", "<f2": "F16"}


@short
@dataclass(frozen=True, slots=True)
class NpyCheckpoint:
    """One array, by the file's name, or `called` so within an archive; see Checkpoint."""

    path: Path
    storage: str
    sizes: tuple[int, ...]
    offset: int
    reads: Reads
    called: str | None = None

    def names(self) -> Sequence[str]:
        """The one name."""
        return [self.called or self.path.name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The array's shape. Raises UsageError for another name."""
        if name not in self.names():
            raise no_such(name, self.path, self.names())
        return self.sizes

    def matrix(self, name: str) -> FileMatrix:
        """The array. Raises UsageError for another name, and for a shape that is no matrix."""
        shape = self.shape(name)
        made = plain_matrix(name, self.path, self.offset, shape, self.storage, self.reads)
        if made is None:
            raise UsageError(f"{self.path} holds {self.storage}, which is no table of floats")
        return made


@short
@dataclass(frozen=True, slots=True)
class Header:
    """What an npy header says: the numbers' type and shape, whether they lie column by column,
    and from which byte of the file to which they may lie.
    """

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    by_columns: bool
    offset: int
    end: int


def open_npy(path: Path) -> NpyCheckpoint:
    """One npy file. Raises as `read_header` and `rows_of`."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    header = read_header(path, str(path), 0, size)
    reads = Reads()
    reads.opened(path, header.offset)
    return NpyCheckpoint(path, rows_of(header, str(path)), header.sizes, header.offset, reads)


def read_header(path: Path, said: str, start: int, end: int) -> Header:
    """The header of the npy data from byte `start` to `end` of a file; `said` names it.

    Raises ModelFileError for a file that cannot be read and a header that is none.
    """
    from numpy.lib import format as npy

    try:
        with path.open("rb") as file:
            file.seek(start)
            version = npy.read_magic(file)
            # The third version differs by its header's encoding, and has no reader of its own.
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, by_columns, dtype = read(file)
            if any(type(axis) is not int or axis < 0 for axis in shape):
                raise ValueError(f"its shape is {shape}")
            offset = file.tell()
            return Header(dtype, tuple(shape), by_columns, offset, min(end, file.seek(0, 2)))
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        # numpy reads a header as Python source: damage ends in whatever a tokenizer, a parser or a
        # dtype's constructor raises.
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelFileError(f"{said} is no npy file ({told}); {AGAIN}") from error


def rows_of(header: Header, said: str) -> str:
    """The type of floats whose rows can be read one by one, as safetensors names it.

    Raises ModelFileError for data that is truncated, for arrays of Python objects (pickles, whose
    code would run), of another type than little-endian floats, or stored column by column.
    """
    dtype, shape = header.dtype, header.sizes
    if dtype.hasobject:
        raise ModelFileError(
            f"{said} holds Python objects, which are pickled and could run code when read; such "
            "files are refused: save the numbers as float32"
        )
    if dtype.str not in _TYPES:
        raise ModelFileError(
            f"{said} holds {dtype}; little-endian float64, float32 and float16 are read"
        )
    if header.by_columns and len(shape) > 1:
        raise ModelFileError(
            f"{said} is stored column by column, so that no row can be read by itself; save it "
            "again with numpy.ascontiguousarray"
        )
    wanted = header.offset + math.prod(shape) * dtype.itemsize
    if wanted > header.end:
        raise ModelFileError(
            f"{said}: an array of shape {shape} ends at byte {wanted}, and the file has "
            f"{header.end}; {AGAIN}"
        )
    return _TYPES[dtype.str]


_LOCAL = struct.Struct("<4s22xHH")
"""The header before each file of an archive: its mark, and how long two more fields are."""

_ENCRYPTED = 1


@short
@dataclass(frozen=True, slots=True)
class NpzCheckpoint:
    """The arrays of an archive by name, `.npy` left out; see Checkpoint."""

    path: Path
    members: Mapping[str, zipfile.ZipInfo]
    reads: Reads

    def names(self) -> Sequence[str]:
        """All names, sorted."""
        return sorted(self.members)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array, of whatever it holds. Raises as `matrix`."""
        return self._header(name).sizes

    def matrix(self, name: str) -> FileMatrix:
        """An array.

        Raises UsageError for an unknown name or a shape that is no matrix, ModelFileError for one
        that is compressed, encrypted or damaged, and as `open_npy` for one without rows of floats.
        """
        header, said = self._header(name), self._said(name)
        kept = NpyCheckpoint(
            self.path, rows_of(header, said), header.sizes, header.offset, self.reads, name
        )
        return kept.matrix(name)

    def _said(self, name: str) -> str:
        return f"{self.path}: array {name!r}"

    def _header(self, name: str) -> Header:
        if name not in self.members:
            raise no_such(name, self.path, self.names())
        member = self.members[name]
        said = self._said(name)
        if member.flag_bits & _ENCRYPTED:
            raise ModelFileError(f"{said} is encrypted; save it again with numpy.savez")
        if member.compress_type != zipfile.ZIP_STORED:
            raise ModelFileError(
                f"{said} is compressed, so that no row can be read by itself; save it again with "
                "numpy.savez, which does not compress"
            )
        try:
            with self.path.open("rb") as file:
                file.seek(member.header_offset)
                local = file.read(_LOCAL.size)
                mark, *lengths = _LOCAL.unpack(local) if len(local) == _LOCAL.size else (b"", 0)
        except OSError as error:
            raise ModelFileError(
                f"{self.path} cannot be read: {error.strerror or error}"
            ) from error
        if mark != b"PK\x03\x04":
            raise ModelFileError(f"{said} is not where the archive says; {AGAIN}")
        start = member.header_offset + _LOCAL.size + sum(lengths)
        header = read_header(self.path, said, start, start + member.file_size)
        self.reads.opened(self.path, header.offset - start)
        return header


def open_npz(path: Path) -> NpzCheckpoint:
    """One archive. Raises ModelFileError for one that is damaged or holds no array."""
    try:
        with zipfile.ZipFile(path) as archive:
            listed = archive.infolist()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
        raise ModelFileError(f"{path} is no npz archive ({error}); {AGAIN}") from error
    members = {each.filename.removesuffix(".npy"): each for each in listed
               if each.filename.endswith(".npy")}  # fmt: skip
    if not members:
        raise ModelFileError(f"{path} holds no array; numpy.savez writes what is read here")
    reads = Reads()
    reads.opened(path, 0)
    return NpzCheckpoint(path, members, reads)
