"""How training shows itself: a bar, and the curve of the losses growing above it.

On a terminal the curve is drawn anew with every step; elsewhere a plain line is written now and
then, so that a log stays readable. All of it goes to stderr: stdout is for results.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ropewalk.cli.progress import SECONDS_BETWEEN_LINES, clock

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from ropewalk.extend.tune.loop import StepResult

CURVE_HEIGHT = 8
BAR_WIDTH = 24


class TuneProgress:
    """A context manager whose methods fit `ropewalk.extend.tune.session.Listener`."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._on_terminal = sys.stderr.isatty() and not self._console.is_dumb_terminal
        self._live: Live | None = None
        self._total = 0
        self._steps: list[StepResult] = []
        self._begun = self._last_line = time.monotonic()
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def say(self, phase: str) -> None:
        """Name the phase that begins."""
        self._line(f"{phase} ...")

    def note(self, sentence: str) -> None:
        """Say what was found out about the run."""
        self._line(sentence)

    def begin(self, total: int, steps: list[StepResult]) -> None:
        """Training begins, or goes on behind `steps`, to be `total` steps."""
        from rich.live import Live

        self._total, self._steps, self._taken = total, list(steps), 0
        self._begun = time.monotonic()
        if self._on_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._drawn, refresh_per_second=4,
                transient=True,
            )  # fmt: skip
            self._live.start()

    def step(self, result: StepResult) -> None:
        """A step has been taken."""
        self._steps.append(result)
        self._taken += 1
        now = time.monotonic()
        due = now - self._last_line >= SECONDS_BETWEEN_LINES or result.step == self._total
        if self._live is None and due:
            self._last_line = now
            self._line(self._words())

    def end(self) -> None:
        """Training has stopped."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            if self._steps:
                self._line(self._words())

    def _words(self) -> str:
        if not self._steps:
            return f"step 0/{self._total}"
        last = self._steps[-1]
        passed = time.monotonic() - self._begun
        left = (
            ""
            if not self._taken
            else (f", ETA {clock(passed / self._taken * (self._total - last.step))}")
        )
        return (
            f"step {last.step}/{self._total}, loss {last.loss:.4f}, rate {last.rate:.2e}, "
            f"gradient {last.norm:.3g}, {last.read / last.seconds:,.0f} tokens/s{left}"
        )

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        from ropewalk.report.tune_text import curve_lines

        width = max(40, min(100, self._console.width))
        lines = curve_lines([each.loss for each in self._steps], width, CURVE_HEIGHT)
        done = self._steps[-1].step if self._steps else 0
        return Group(
            *(Text(line, no_wrap=True) for line in lines),
            ProgressBar(total=max(1, self._total), completed=done, width=BAR_WIDTH),
            Text(self._words(), overflow="ellipsis"),
        )

    def _line(self, text: str) -> None:
        from ropewalk.report.text import visible

        self._console.print(visible(text), markup=False, soft_wrap=True)
