"""How long rows may be: what the checkpoint claims, and what the memory of this machine holds."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import LengthError, UsageError
from ropewalk.extension.fit import check
from ropewalk.extension.tune.training_settings import Mix, TuneSettings
from ropewalk.models.dtypes import torch_dtype
from ropewalk.models.resolve import ModelFiles, read_spec, resolve
from ropewalk.short import short, sized

if TYPE_CHECKING:
    import torch

_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_TRAINED_BYTES = 16
"""A trained weight in float32, its gradient, and AdamW's two moments of it."""
_HELD_BYTES = 4


def claimed_mix(model: str) -> Mix:
    """Rows as long as the checkpoint `model` claims to read.

    Raises LengthError for one that claims no length, and as `models.resolve.resolve`.
    """
    files = resolve(model)
    claimed = read_spec(files).claimed.tokens
    if claimed is None or claimed < 2:
        raise LengthError(
            f"{files.title} claims no length that rows could have; say how long they are to be, "
            "like --length 4k"
        )
    return Mix((claimed,))


def check_length(settings: TuneSettings, files: ModelFiles) -> None:
    """Raise LengthError for rows longer than the checkpoint claims, with what can be done."""
    spec = read_spec(files)
    longest, claimed = settings.mix.longest, spec.claimed.tokens
    if claimed is None or longest <= claimed:
        return
    said = (
        f"--length {longest} is beyond the {claimed:,} tokens that {files.title} is made for, and "
        f"tuning changes no schedule; give --length {claimed} or less"
    )
    try:
        check(spec, longest)
    except UsageError as error:
        raise LengthError(f"{said}. It cannot be extended as it is: {error}") from error
    raise LengthError(
        f"{said}, or write a checkpoint for that length and tune it instead: ropewalk extend "
        f"{shlex.quote(files.name)} --to {longest} --out FOLDER"
    )


@short
@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a process needs at least: for `weights`, gradients and the optimiser, and for
    the inputs of all blocks of the `rows` that go through together. `has` is what there is.
    """

    weights: int
    rows: int
    has: int | None

    @property
    def least(self) -> int:
        """All that is surely needed."""
        return self.weights + self.rows

    @classmethod
    def of(
        cls,
        config: Any,
        counts: tuple[int, int],
        settings: TuneSettings,
        device: torch.device,
        processes: int = 1,
    ) -> Memory:
        """For a model of transformers' `config`, of whose weights `counts` (trained, all) exist."""
        trained, every = counts
        weights = (_TRAINED_BYTES * trained + _HELD_BYTES * (every - trained)) // processes
        text = config.get_text_config()
        layers, width = (int(getattr(text, n, 0)) for n in ("num_hidden_layers", "hidden_size"))
        each = torch_dtype(settings.dtype).itemsize
        rows = settings.at_once * settings.mix.longest * layers * width * each
        return cls(weights, rows, memory_of(device))

    def note(self, settings: TuneSettings, claimed: int | None) -> str:
        """How long rows are and why, and what they take, for a line before training.

        Raises LengthError where it is surely more than there is.
        """
        longest = settings.mix.longest
        why = "" if longest != claimed else ", as long as the checkpoint claims to read"
        needs = (
            f"at least {sized(self.least)} of memory, {sized(self.rows)} of it for "
            f"{settings.at_once} row{'s' * (settings.at_once > 1)} at once"
        )
        if self.has is not None and self.least > self.has:
            raise LengthError(
                f"rows of {longest:,} tokens{why} take {needs}, and here are {sized(self.has)}; "
                "give a shorter --length"
            )
        return f"rows of {longest:,} tokens{why}; --length makes them shorter. They take {needs}"


def memory_of(device: torch.device) -> int | None:
    """Bytes of memory that a device has, of a CPU what this process may use; None if unknown."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[1])
    if device.type != "cpu":
        return None
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (OSError, ValueError, AttributeError):
        return None
    for path in _CGROUPS:
        try:
            found.append(int(Path(path).read_text(encoding="ascii")))
        except (OSError, ValueError):
            # No such limit, or "max".
            continue
    return min(found)
