"""How training shows itself: the usual bar, and the curve of the losses growing above it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ropewalk.cli.progress import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ropewalk.extension.tune.loop import StepResult

CURVE_HEIGHT = 8
WIDEST_CURVE = 100


class TuneProgress(Progress):
    """Progress whose methods fit `ropewalk.extension.tune.session.Listener`."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        # What is drawn above the bar is asked for before anything else is known.
        self._steps: list[StepResult] = []
        self._total = self._before = 0
        super().__init__(now=now)

    def begin(self, total: int, steps: list[StepResult]) -> None:
        """Training begins, or goes on behind `steps`, to be `total` steps."""
        self.say("training")
        self._total, self._steps = total, list(steps)
        # Steps of earlier calls say nothing of the pace of this one.
        self._before = len(steps)

    def step(self, result: StepResult) -> None:
        """A step has been taken."""
        self._steps.append(result)
        taken, total = len(self._steps) - self._before, self._total
        left = (self._now() - self._begun) / taken * (total - result.step)
        count = f"step {result.step}/{total}"
        if self._bar is None:
            count += f", {step_words(result)}"
        self._show("training", result.step, total, count, left)

    def end(self) -> None:
        """Training has stopped."""
        if self._bar is not None and self._steps:
            last = self._steps[-1]
            self.note(f"training step {last.step}/{self._total}, {step_words(last)}")
        self._steps = []

    def _above(self) -> list[RenderableType]:
        from rich.text import Text

        from ropewalk.report.text import wrapped
        from ropewalk.report.tune_text import curve_lines

        if not self._steps:
            return []
        room = self._console.width
        curve = curve_lines(
            [each.loss for each in self._steps], min(WIDEST_CURVE, room), CURVE_HEIGHT
        )
        last = wrapped(step_words(self._steps[-1]), room)
        return [Text(line, no_wrap=True) for line in (*curve, *last)]


def step_words(result: StepResult) -> str:
    """What a step of training came to."""
    return (
        f"loss {result.loss:.4f}, rate {result.rate:.2e}, gradient {result.norm:.3g}, "
        f"{result.read / result.seconds:,.0f} tokens/s"
    )
