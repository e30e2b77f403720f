"""npz: several npy files in a zip archive, as numpy.savez writes them.

What numpy.savez stores lies in the archive as it would in a file of its own, so that its rows are
read one by one and mapped; an array is opened only when it is asked for. What
numpy.savez_compressed writes has no rows to read, and is refused.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.errors import ModelFileError
from ropewalk.short import short
from ropewalk.tables.formats.base import AGAIN, no_such
from ropewalk.tables.formats.npy import Header, NpyCheckpoint, read_header, rows_of
from ropewalk.tables.stored import FileMatrix, Reads

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
