"""GGUF: the header is read by our bounded parser, rows are dequantised by the gguf package.

A quantised row is a whole number of blocks, so that any row can be read by itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.dialects.gguf.header import GgufHeader, read_header
from ropewalk.dialects.gguf.types import TENSOR_TYPES
from ropewalk.errors import MissingPartError, UsageError
from ropewalk.tables.formats.base import no_such, plain_matrix, two_axes
from ropewalk.tables.stored import Decode, FileMatrix, Reads

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class GgufCheckpoint:
    """One GGUF file; see Checkpoint. `header` is what it says before its weights."""

    header: GgufHeader
    reads: Reads

    @property
    def path(self) -> Path:
        """The file."""
        return self.header.path

    def names(self) -> Sequence[str]:
        """All tensor names, sorted."""
        return sorted(self.header.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, rows first. Raises UsageError for an unknown name."""
        info = self.header.tensors.get(name)
        if info is not None:
            return info.shape[::-1]
        error = no_such(name, self.path, self.names())
        parts = self.header.metadata.get("split.count", 1)
        if isinstance(parts, int) and parts > 1:
            raise UsageError(f"{error}; the file is one of {parts} parts: give the one that has it")
        raise error

    def matrix(self, name: str) -> FileMatrix:
        """A tensor as a matrix, quantised types as float32.

        Raises UsageError for an unknown name, a shape that is no matrix, or a type that cannot
        be dequantised, MissingPartError for a quantised one without the gguf package.
        """
        import torch

        shape = self.shape(name)
        info = self.header.tensors[name]
        place = self.header.data_start + info.offset
        plain = plain_matrix(name, self.path, place, shape, info.type_name, self.reads)
        if plain is not None:
            return plain
        decode = _dequantiser(self.path, name, info.type_id)
        rows, width = two_axes(name, shape)
        kind = TENSOR_TYPES[info.type_id]
        row_bytes = width // kind.block * kind.size
        return FileMatrix(
            name, self.path, place, rows, width, row_bytes, kind.name, torch.float32, decode,
            self.reads,
        )  # fmt: skip


def open_gguf(path: Path) -> GgufCheckpoint:
    """One GGUF file. Raises GgufError for a file that is not, or is damaged."""
    header = read_header(path)
    reads = Reads()
    reads.opened(path, header.data_start)
    return GgufCheckpoint(header, reads)


def _dequantiser(path: Path, name: str, type_id: int) -> Decode:
    try:
        package: Any = importlib.import_module("gguf")
    except ImportError as error:
        raise MissingPartError(
            "reading a quantised table needs gguf, which is not installed: "
            'pip install "ropewalk[prove]"'
        ) from error
    import numpy as np
    import torch

    kinds = package.GGMLQuantizationType
    stored = TENSOR_TYPES[type_id].name

    def decode(raw: Tensor) -> Tensor:
        return torch.from_numpy(package.dequantize(raw.numpy(), kinds(type_id)))

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
