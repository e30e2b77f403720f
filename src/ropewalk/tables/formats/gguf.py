"""GGUF: the header is read by our bounded parser, rows are dequantised by the gguf package.

A quantised row is a whole number of blocks, so that any row can be read by itself.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ropewalk.dialects.gguf.header import GgufHeader, read_header
from ropewalk.dialects.gguf.types import TENSOR_TYPES
from ropewalk.errors import MissingPartError, ModelFileError, UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.short import short
from ropewalk.tables.formats.shards import no_such, plain_matrix, two_axes
from ropewalk.tables.stored import Decode, FileMatrix, Reads

_PART = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<parts>\d{5})\.gguf")
"""How llama.cpp names the parts of a model that was split."""


@short
@dataclass(frozen=True, slots=True)
class GgufCheckpoint:
    """One GGUF file, or all parts of one that was split; see Checkpoint.

    `header` is what the file, or its first part, says before its weights; `homes` maps every
    tensor name to the header of the part that has it.
    """

    header: GgufHeader
    homes: Mapping[str, GgufHeader]
    reads: Reads

    @property
    def path(self) -> Path:
        """The file, or its first part."""
        return self.header.path

    def names(self) -> Sequence[str]:
        """All tensor names, sorted."""
        return sorted(self.homes)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, rows first. Raises UsageError for an unknown name."""
        if name not in self.homes:
            raise no_such(name, self.path, self.names())
        return self.homes[name].tensors[name].shape[::-1]

    def matrix(self, name: str) -> FileMatrix:
        """A tensor as a matrix, quantised types as float32.

        Raises UsageError for an unknown name, a shape that is no matrix, or a type that cannot
        be dequantised, MissingPartError for a quantised one without the gguf package.
        """
        shape, home = self.shape(name), self.homes[name]
        info = home.tensors[name]
        place = home.data_start + info.offset
        plain = plain_matrix(name, home.path, place, shape, info.type_name, self.reads)
        if plain is not None:
            return plain
        decode = _dequantiser(home.path, name, info.type_id)
        rows, width = two_axes(name, shape)
        kind = TENSOR_TYPES[info.type_id]
        row_bytes = width // kind.block * kind.size
        return FileMatrix(
            name, home.path, place, rows, width, row_bytes, kind.name, decode, self.reads
        )


def open_gguf(path: Path) -> GgufCheckpoint:
    """One GGUF file; with it the other parts, headers only, where it is one of several.

    There is no index of parts, and whether a head is stored is known only when all were asked.
    Raises GgufError for a file that is not, or is damaged, ModelFileError for parts that are not
    there.
    """
    reads = Reads()
    headers = [read_header(part) for part in _parts(path, read_header(path))]
    for header in headers:
        reads.opened(header.path, header.data_start)
    homes = {name: header for header in headers for name in header.tensors}
    return GgufCheckpoint(headers[0], homes, reads)


def _parts(path: Path, header: GgufHeader) -> list[Path]:
    """All parts of the file at `path`, in order; itself where it was not split."""
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count < 2:
        return [path]
    named = _PART.fullmatch(path.name)
    if named is None or int(named["parts"]) != count:
        raise ModelFileError(
            f"{path} is one of {count} parts and is not named so; give it back its name, "
            f"{path.stem}-00001-of-{count:05d}.gguf"
        )
    parts = [
        path.with_name(f"{named['stem']}-{number:05d}-of-{count:05d}.gguf")
        for number in range(1, count + 1)
    ]
    for part in parts:
        if not part.is_file():
            raise ModelFileError(f"{path} is one of {count} parts, and {part.name} is not there")
    return parts


def _dequantiser(path: Path, name: str, type_id: int) -> Decode:
    try:
        package: Any = importlib.import_module("gguf")
    except ImportError as error:
        raise MissingPartError(
            "reading a quantised table needs gguf, which is not installed: "
            'pip install "ropewalk[prove]"'
        ) from error
    kinds = package.GGMLQuantizationType
    stored = TENSOR_TYPES[type_id].name

    def decode(raw: Array) -> Array:
        numbers: Array = package.dequantize(raw, kinds(type_id))
        return numbers

    try:
        kind = TENSOR_TYPES[type_id]
        package.dequantize(np.zeros((1, kind.size), np.uint8), kinds(type_id))
    except (NotImplementedError, ValueError, KeyError) as error:
        known = sorted(t.name for t in package.quants._type_traits)
        raise UsageError(
            f"{path}: tensor {name!r} is stored as {stored}, which the installed gguf package "
            f"cannot dequantise; it knows {', '.join(known)}"
        ) from error
    return decode
