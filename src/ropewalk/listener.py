"""Who is told how long work goes on. Every verb takes one, and tells it everything or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.short import short


def _nobody(*_: Any) -> None:
    """Does nothing."""


@short
@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Functions that are told of phases, counts, notes and results; each does nothing by default.

    `say`: a phase begins, in a few words; the one before it has ended. `share`: how many steps of
    how many are done in it; `so_far`: in words, where nobody knows how many there are. `note`: a
    sentence the user should know. `planned`: what a proof will ask (`ropewalk.proof.plan.Plan`)
    and the folder of its answers. `event`: an answer has come (`ropewalk.proof.progress.Event`).
    `begin`: training goes on behind a list of steps, to be so many in all; `step`: one more
    (`ropewalk.extension.tune.loop.StepResult`); `end`: it has stopped.
    """

    say: Callable[[str], None] = _nobody
    share: Callable[[int, int], None] = _nobody
    so_far: Callable[[str], None] = _nobody
    note: Callable[[str], None] = _nobody
    planned: Callable[[Any, Path], None] = _nobody
    event: Callable[[Any], None] = _nobody
    begin: Callable[[int, list[Any]], None] = _nobody
    step: Callable[[Any], None] = _nobody
    end: Callable[[], None] = _nobody
