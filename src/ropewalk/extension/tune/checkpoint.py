"""Where a run can go on: weights, optimiser, random numbers and the step, written whole.

A checkpoint is a folder `step-00000100` with the files of torch.distributed.checkpoint, written by
every process its part, and `state.json`. It is filled beside its place, put on the disk, and
renamed by the first process when all have written: what has that name is complete. The one before
it goes only then. Where the data stands follows from the step (`data`), and so does the rate.

A run may go on with another number of processes than it stopped with: the parts say where in the
whole they belong.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import StoreError
from ropewalk.extension.tune.world import World

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.optim import Optimizer

CHECKPOINTS = "checkpoints"
"""The folder of checkpoints in a run folder."""
STATE = "state.json"
_NAME = re.compile(r"step-(\d{8,})")
_MAKING = ".making-"


class Checkpoints:
    """The checkpoints of a run in `folder`, of which the newest is kept."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self._world = folder, world

    def prepare(self) -> None:
        """Make the folder, and clear away what a killed process left half-written.

        Raises StoreError when it cannot be written in.
        """
        with self._together("make the folder of checkpoints"):
            if self._world.first:
                self.folder.mkdir(parents=True, exist_ok=True)
                for left in self.folder.glob(f"{_MAKING}*"):
                    shutil.rmtree(left)

    def newest(self) -> int | None:
        """The step of the newest complete checkpoint, None where there is none."""
        found: int | None = self._world.agree(max(self._steps(), default=None))
        return found

    @staticmethod
    def newest_in(folder: Path) -> int | None:
        """As `newest`, of any folder and without asking other processes."""
        return max(_steps_in(folder), default=None)

    def path(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.folder / f"step-{step:08}"

    def save(
        self, model: nn.Module, optimiser: Optimizer, step: int, facts: dict[str, Any]
    ) -> None:
        """Write a checkpoint, and then remove the ones before it.

        Raises StoreError when it cannot be written, on every process: nothing is left of it, and
        the one before it stays.
        """
        from torch.distributed.checkpoint.state_dict_saver import save

        beside = self.folder / f"{_MAKING}{step:08}"
        kept = self.newest()
        words = "no checkpoint was kept" if kept is None else f"the one of step {kept} is kept"
        try:
            with self._together(f"write the checkpoint of step {step}", words):
                if self._world.first:
                    beside.mkdir()
            with self._together(f"write the checkpoint of step {step}", words):
                save(
                    self._state(model, optimiser),
                    checkpoint_id=beside,
                    no_dist=not self._world.several,
                )
                if self._world.first:
                    facts = {**facts, "step": step, "processes": self._world.size}
                    (beside / STATE).write_text(json.dumps(facts, indent=1))
            with self._together(f"write the checkpoint of step {step}", words):
                if self._world.first:
                    for each in beside.iterdir():
                        _to_disk(each)
                    beside.replace(self.path(step))
                    _to_disk(self.folder)
                    for old in self._steps():
                        if old != step:
                            shutil.rmtree(self.path(old))
        finally:
            if self._world.first:
                shutil.rmtree(beside, ignore_errors=True)

    def load(self, model: nn.Module, optimiser: Optimizer, step: int) -> dict[str, Any]:
        """Put a checkpoint's state into model, optimiser and generators; its facts.

        Raises StoreError for one that cannot be read.
        """
        from torch.distributed.checkpoint.state_dict import set_state_dict
        from torch.distributed.checkpoint.state_dict_loader import load

        with self._together(f"read the checkpoint of step {step}", f"in {self.path(step)}"):
            facts: dict[str, Any] = json.loads((self.path(step) / STATE).read_text())
            # Generators belong to processes; another number of them draws anew.
            alike = facts["processes"] == self._world.size
            state = self._state(model, optimiser, generators=alike)
            load(state, checkpoint_id=self.path(step), no_dist=not self._world.several)
            set_state_dict(
                model,
                optimiser,
                model_state_dict=state["model"],
                optim_state_dict=state["optimiser"],
                options=_options(),
            )
            if alike:
                self._set_random(state)
        return facts

    def _state(
        self, model: nn.Module, optimiser: Optimizer, *, generators: bool = True
    ) -> dict[str, Any]:
        """Everything that a checkpoint holds, in the places that loading fills."""
        import torch
        from torch.distributed.checkpoint.state_dict import get_state_dict

        weights, moments = get_state_dict(model, optimiser, options=_options())
        state: dict[str, Any] = {"model": weights, "optimiser": moments}
        if not generators:
            return state
        state[f"random-{self._world.rank}"] = torch.get_rng_state()
        if self._world.device.type == "cuda":
            state[f"random-cuda-{self._world.rank}"] = torch.cuda.get_rng_state()
        return state

    def _set_random(self, state: dict[str, Any]) -> None:
        import torch

        torch.set_rng_state(state[f"random-{self._world.rank}"])
        if self._world.device.type == "cuda":
            torch.cuda.set_rng_state(state[f"random-cuda-{self._world.rank}"])

    def _steps(self) -> list[int]:
        return _steps_in(self.folder)

    @contextmanager
    def _together(self, what: str, words: str = "") -> Iterator[None]:
        """What all processes do; when one cannot, all raise, and none waits for another."""
        from torch.distributed.checkpoint.api import CheckpointException

        reason: str | None = None
        try:
            with warnings.catch_warnings():
                # It warns of a single process, which it was told of.
                warnings.filterwarnings("ignore", message="torch.distributed is disabled")
                yield
        except OSError as error:
            reason = error.strerror or str(error)
        except CheckpointException as error:
            reason = _first_reason(error)
        except (RuntimeError, ValueError, KeyError) as error:
            # torch's writer and reader of files raise these.
            reason = " ".join(str(error).split())[:200]
        reasons = [each for each in self._world.gather(reason) if each is not None]
        if reasons:
            rest = f"; {words}" if words else ""
            raise StoreError(
                f"cannot {what} in {self.folder}: {reasons[0]}{rest}; make room or choose another "
                "--out, and the same command goes on"
            )


class Whole:
    """The state after step `step`: until the next one is done only the generators move on."""

    def __init__(self, model: nn.Module, optimiser: Optimizer, step: int, world: World) -> None:
        self._model, self._optimiser, self.step = model, optimiser, step
        self._random = _random_state(world.device)

    def keep(self, kept: Checkpoints) -> None:
        """Write it, as if the step behind it had not been begun. Raises StoreError."""
        self._optimiser.zero_grad(set_to_none=True)
        _set_random_state(self._random)
        kept.save(self._model, self._optimiser, self.step, {})


def _steps_in(folder: Path) -> list[int]:
    found = (_NAME.fullmatch(each.name) for each in folder.glob("step-*"))
    return sorted(int(each[1]) for each in found if each is not None)


def _random_state(device: torch.device) -> dict[str, Any]:
    """The states of the generators that a step may draw from."""
    import torch

    cuda = {"cuda": torch.cuda.get_rng_state()} if device.type == "cuda" else {}
    return {"cpu": torch.get_rng_state(), **cuda}


def _set_random_state(state: dict[str, Any]) -> None:
    import torch

    torch.set_rng_state(state["cpu"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])


def _options() -> Any:
    from torch.distributed.checkpoint.state_dict import StateDictOptions

    # Held-fast weights are the model's own files, and need no second copy.
    return StateDictOptions(ignore_frozen_params=True, strict=False)


def _first_reason(error: Any) -> str:
    failures = getattr(error, "failures", {})
    for found in failures.values():
        inner = found[0] if isinstance(found, tuple) else found
        number = getattr(inner, "errno", None)
        return os.strerror(number) if number else " ".join(str(inner).split())[:200]
    return " ".join(str(error).split())[:200] or os.strerror(errno.EIO)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
