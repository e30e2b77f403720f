"""What every format offers, plain floats, and tensors that are spread over several files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np

from ropewalk.dialects.hf import load_json
from ropewalk.errors import ModelFileError, UsageError
from ropewalk.kernels.arrays import Array
from ropewalk.short import short
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


Held = TypeVar("Held")
"""What an opened file has of a tensor."""


@short
@dataclass(slots=True)
class Shards(ABC, Generic[Held]):
    """One file, or several: `homes` maps every tensor name to its file. See Checkpoint.

    `opened` is what was read of the files so far, by name.
    """

    path: Path
    homes: Mapping[str, Path]
    reads: Reads
    opened: dict[Path, dict[str, Held]] = field(default_factory=dict)

    def names(self) -> Sequence[str]:
        """All tensor names, sorted."""
        return sorted(self.homes)

    def find(self, name: str) -> Held:
        """A tensor, its file opened if it was not yet.

        Raises UsageError for an unknown name, ModelFileError for a shard that is missing, lacks
        the tensor, or cannot be opened.
        """
        home = self.homes.get(name)
        if home is None:
            raise no_such(name, self.path, self.names())
        if home not in self.opened:
            if not home.is_file():
                raise ModelFileError(
                    f"{self.path} says that {name!r} is in {home.name}, which is not there; fetch "
                    "this shard, the others are not needed"
                )
            self.opened[home] = self.open(home)
        if name not in self.opened[home]:
            raise ModelFileError(
                f"{self.path} says that {name!r} is in {home.name}, and the shard has no such "
                f"tensor; the two do not belong together: {AGAIN}"
            )
        return self.opened[home][name]

    @abstractmethod
    def open(self, home: Path) -> dict[str, Held]:
        """What one of the files has, by name. Raises ModelFileError."""


def index_homes(index: Path, reads: Reads) -> dict[str, Path]:
    """Which file beside an index holds each tensor.

    Raises ConfigError for an index that is no JSON object, ModelFileError for one without a
    weight_map, or with shards that are no plain file names.
    """
    homes = load_json(index).get("weight_map")
    if not isinstance(homes, dict) or not homes:
        raise ModelFileError(f"{index} has no weight_map of tensor names; {AGAIN}")
    reads.opened(index, index.stat().st_size)
    for name, shard in homes.items():
        # An index must not send its reader to other folders.
        if not isinstance(shard, str) or not shard or Path(shard).name != shard:
            raise ModelFileError(
                f"{index} places {name!r} in {shard!r}; a shard is a file beside its index"
            )
    return {name: index.parent / shard for name, shard in homes.items()}
