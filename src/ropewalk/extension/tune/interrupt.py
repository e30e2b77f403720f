"""Ctrl-C during training: it waits where it would leave half a step, and what is done is kept.

Weights are changed at the end of a step alone. So with one process Ctrl-C ends a step that is
under way at once, with the weights of the step before it; only while weights are changed and
written down does it wait, and a second Ctrl-C does not. With several processes each might stop in
another step, and wait for the others for ever: there all finish the step, and stop together.
torchrun sends its processes signals of its own when it is stopped, and a cluster sends SIGTERM.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from ropewalk.errors import StoreError
from ropewalk.extension.tune.checkpoint import CHECKPOINTS, Checkpoints
from ropewalk.extension.tune.journal import read_losses
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.extension.tune.world import World


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, when everything that can be kept is. Its text says what that is, "" on every
    process but the first.
    """


class Interrupts:
    """Within it Ctrl-C is held back between `hold` and `release`; with several processes always.

    In a thread that is not the main one, and where SIGINT is ignored, signals go as they went.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._before: dict[int, Any] = {}
        self._asked = False
        self.held = False

    def __enter__(self) -> Self:
        caught = [signal.SIGINT, *([signal.SIGTERM] if self._world.several else [])]
        if threading.current_thread() is threading.main_thread():
            for each in caught:
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)

    def hold(self) -> None:
        """From here on a step is changing what is kept."""
        self.held = True

    def release(self) -> None:
        """The step is whole. Raises KeyboardInterrupt, on all processes, if any was asked to
        stop meanwhile.
        """
        self.held = False
        if any(self._world.gather(self._asked)):
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        again, self._asked = self._asked, True
        if not self._world.several and (again or not self.held):
            raise KeyboardInterrupt


def what_is_kept(settings: TuneSettings, *, written: bool) -> str:
    """What a run that was interrupted has in its folder, and what the same command makes of it.

    `written`: whether the tuned model is there already.
    """
    out = settings.out
    if written:
        return "interrupted behind the last step; the same command goes on with measuring the model"
    try:
        taken = max((each.step for each in read_losses(out)), default=0)
    except StoreError:
        taken = 0
    last = Checkpoints.newest_in(out / CHECKPOINTS)
    if last is None and not taken:
        return (
            "interrupted before the first step was done: nothing was trained that could be lost, "
            "and the same command begins again"
        )
    if last is None:
        return (
            f"interrupted before anything was kept: the {taken} step{'s' * (taken > 1)} taken "
            f"{'are' if taken > 1 else 'is'} lost, and the same command begins again"
        )
    lost = f"; what was taken behind it, up to step {taken}, is lost" if taken > last else ""
    return (
        f"interrupted; step {last} of {settings.steps} is kept in {out / CHECKPOINTS}, and the "
        f"same command goes on from there{lost}"
    )
