"""torch's own files: a state_dict, read with weights_only, mapped where the file can be.

Such a file is a pickle, and a pickle can run code. torch's weights_only reader takes tensors and
plain containers and refuses the rest; nothing else is ever tried.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.kernels.arrays import Array, as_array
from ropewalk.short import short
from ropewalk.tables.formats.safetensors import refuse_scaled
from ropewalk.tables.formats.shards import AGAIN, Shards, index_homes, two_axes
from ropewalk.tables.stored import Reads, Way, check_way

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_DEPTH = 3
"""How deep a state_dict may lie in dictionaries of a training framework."""

_DAMAGE = (
    RuntimeError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
    AssertionError, MemoryError, struct.error,
)  # fmt: skip
"""What torch's reader ends in on damaged files; OSError and UnpicklingError are told apart."""


@short
@dataclass(frozen=True, slots=True)
class TorchMatrix:
    """A tensor of a torch file, its pages touched when rows are read. See Matrix."""

    name: str
    path: Path
    tensor: Tensor
    reads: Reads

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.tensor)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.tensor.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """As Matrix; float32 for floats of 8 bits."""
        import torch

        return self.tensor.dtype if self.plain else torch.float32

    @property
    def storage(self) -> str:
        """The stored dtype's name, as in safetensors: "BF16"."""
        name = str(self.tensor.dtype).removeprefix("torch.")
        return name.replace("bfloat", "BF").replace("float", "F")

    @property
    def plain(self) -> bool:
        """As Matrix; floats of 8 bits are not."""
        return self.tensor.itemsize > 1

    @property
    def size(self) -> int:
        """Bytes of the whole matrix."""
        return self.tensor.numel() * self.tensor.itemsize

    def read(self, start: int, stop: int) -> Array:
        """As Matrix; a copy."""
        self.reads.add(self.name, (stop - start) * self.width * self.tensor.itemsize)
        return self._numbers(self.tensor[start:stop].clone())

    def whole(self, way: Way = "mmap") -> Array:
        """As Matrix."""
        check_way(way)
        if way == "stream":
            return self.read(0, self.rows)
        self.reads.add(self.name, self.size)
        return self._numbers(self.tensor)

    def _numbers(self, rows: Tensor) -> Array:
        return as_array(rows if self.plain else rows.float())


class TorchCheckpoint(Shards["Tensor"]):
    """A file or shards."""

    __slots__ = ()

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor. Raises as `matrix`."""
        return tuple(self.find(name).shape)

    def matrix(self, name: str) -> TorchMatrix:
        """A tensor as a matrix.

        Raises UsageError for an unknown name, a shape that is no matrix, numbers that are no
        floats, or floats of 8 bits with a scale beside them, ModelFileError for a shard that is
        missing, refused, or lacks the tensor.
        """
        tensor = self.find(name).detach()
        rows, width = two_axes(name, tuple(tensor.shape))
        if not tensor.is_floating_point():
            raise UsageError(f"{self.homes[name]}: tensor {name!r} holds {tensor.dtype}, no floats")
        if tensor.itemsize == 1:
            refuse_scaled(name, self.homes[name], str(tensor.dtype), self.names())
        return TorchMatrix(name, self.homes[name], tensor.view(rows, width), self.reads)

    def open(self, home: Path) -> dict[str, Tensor]:
        """See `read_state_dict`."""
        return read_state_dict(home, self.reads)


def open_torch(path: Path) -> TorchCheckpoint:
    """One torch file. Raises ModelFileError."""
    reads = Reads()
    tensors = read_state_dict(path, reads)
    return TorchCheckpoint(path, dict.fromkeys(tensors, path), reads, {path: tensors})


def open_torch_index(index: Path) -> TorchCheckpoint:
    """The shards named by a `pytorch_model.bin.index.json`. Raises ConfigError, ModelFileError."""
    reads = Reads()
    return TorchCheckpoint(index, index_homes(index, reads), reads)


def read_state_dict(path: Path, reads: Reads) -> dict[str, Tensor]:
    """The tensors of a torch file by name, those in inner dictionaries with a dot between.

    Raises ModelFileError for a file that is missing, damaged, no state_dict, or a pickle that
    holds anything but tensors and plain containers.
    """
    import torch

    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            zipped = file.read(4) == b"PK\x03\x04"
        with warnings.catch_warnings():
            # Of torch's about old ways to save; what a user can act on is raised.
            warnings.simplefilter("ignore")
            held: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnpicklingError as error:
        reason = str(error).strip().splitlines()
        told = next((line for line in reason if "GLOBAL" in line or "Unsupported" in line), "")
        raise ModelFileError(
            f"{path} is refused: it is a pickle that holds more than tensors, or is damaged, and "
            f"code in a pickle is never run{' (' + told.strip()[:160] + ')' if told else ''}; use "
            "a checkpoint in safetensors, or save its state_dict alone"
        ) from error
    except _DAMAGE as error:
        said = (" ".join(str(error).split()) or type(error).__name__)[:200]
        raise ModelFileError(f"{path} is no file of torch's ({said}); {AGAIN}") from error
    # A file that cannot be mapped was read from end to end.
    reads.opened(path, 0 if zipped else size)
    tensors = dict(_flat(held, "", _DEPTH))
    if not tensors:
        raise ModelFileError(f"{path} holds no named tensors; save a module's state_dict")
    return tensors


def _flat(held: object, before: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    import torch

    if not isinstance(held, dict):
        return
    for key, value in held.items():
        if isinstance(value, torch.Tensor):
            yield f"{before}{key}", value
        elif depth > 1:
            yield from _flat(value, f"{before}{key}.", depth - 1)
