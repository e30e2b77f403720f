"""What every step cost, in one JSON line each, and for TensorBoard where that is installed."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ropewalk.errors import StoreError
from ropewalk.extension.tune.loop import StepResult
from ropewalk.files import write_whole

LOSSES = "losses.jsonl"
EVENTS = "tensorboard"


def read_losses(folder: Path) -> list[StepResult]:
    """The kept steps of a run, in order; none where there is no file.

    A last line that was cut off is left out, and a step that stands there twice counts as it was
    taken last. Raises StoreError for a file that cannot be read.
    """
    path = folder / LOSSES
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    found = dict[int, StepResult]()
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            each = StepResult(**json.loads(line))
        except (ValueError, TypeError) as error:
            if number == len(lines) - 1:
                break
            raise StoreError(
                f"{path} is damaged at line {number + 1}: move it away to go on without it"
            ) from error
        found[each.step] = each
    return [found[step] for step in sorted(found)]


class Journal:
    """Adds steps to the log of a run. `note` says why there are no TensorBoard files, or ""."""

    def __init__(self, folder: Path, after: int, *, tensorboard: bool) -> None:
        """Go on behind step `after`; lines of later steps, which will be taken again, go.

        Raises StoreError when the log cannot be written.
        """
        self._path = folder / LOSSES
        kept = [each for each in read_losses(folder) if each.step <= after]
        write_whole(self._path, "".join(_line(each) for each in kept))
        self.note = ""
        self._events = self._open_events(folder, after) if tensorboard else None

    def _open_events(self, folder: Path, after: int) -> Any | None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.note = (
                "no TensorBoard files: tensorboard is not installed (pip install "
                f'"ropewalk[tune]"); {self._path} has every step'
            )
            return None
        return SummaryWriter(str(folder / EVENTS), purge_step=after + 1)

    def add(self, result: StepResult) -> None:
        """Keep a step. Raises StoreError when it cannot be written."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_line(result))
                file.flush()
                os.fsync(file.fileno())
            if self._events is not None:
                for name, value in (
                    ("loss", result.loss),
                    (f"loss/{result.length}", result.loss),
                    ("learning rate", result.rate),
                    ("gradient norm", result.norm),
                    ("tokens a second", result.read / result.seconds),
                ):
                    self._events.add_scalar(name, value, result.step)
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be written: {error.strerror or error}; make room, and the "
                "same command goes on"
            ) from error

    def close(self) -> None:
        """Close the TensorBoard file."""
        if self._events is not None:
            self._events.close()


def _line(result: StepResult) -> str:
    values = asdict(result)
    if not all(math.isfinite(v) for v in values.values()):
        raise ValueError(f"a step that is not finite is not kept: {values}")
    return json.dumps(values) + "\n"
