"""Tensors that are spread over files: which file holds one, opened when it is first asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from ropewalk.dialects.hf import load_json
from ropewalk.errors import ModelFileError
from ropewalk.short import short
from ropewalk.tables.formats.base import AGAIN, no_such
from ropewalk.tables.stored import Reads

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
