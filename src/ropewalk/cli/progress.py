"""How a proof shows itself while it runs: phases, a bar, an ETA that weighs what remains.

On a terminal the bar is live; elsewhere a plain line is written now and then, so that a log
stays readable. All of it goes to stderr: stdout is for results.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from rich.progress import Progress, TaskID

    from ropewalk.prove.cells import Cell
    from ropewalk.prove.plan import Plan
    from ropewalk.prove.runner import Event

SECONDS_BETWEEN_LINES = 15.0


def clock(seconds: float) -> str:
    """A duration as 1:05 or 2:03:09."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def cell_words(cell: Cell) -> str:
    """What is being asked, in the few words that fit before a bar."""
    from ropewalk.prove.cells import Control

    place = f"{cell.length:,} tokens"
    if cell.control is Control.NONE:
        return f"{place} at {cell.depth:.0%}"
    words = {
        Control.NEEDLE_ONLY: "control: needle only",
        Control.NO_NEEDLE: f"control: no needle, {place}",
        Control.END: f"control: needle last, {place}",
    }
    return words[cell.control]


class ProofProgress:
    """A context manager whose methods fit `ropewalk.prove.session.Listener`."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        live = sys.stderr.isatty() and not self._console.is_dumb_terminal
        self._bar = _Bar(self._bar_on_console()) if live else None
        self._started = self._phase_started = time.monotonic()
        self._last_line = self._started
        self._phase = ""
        self._following: dict[Cell, Cell] = {}

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.progress.stop()

    def say(self, phase: str) -> None:
        """Name the phase that begins."""
        self._phase, self._phase_started = phase, time.monotonic()
        if self._bar is not None:
            self._bar.begin(phase)
        else:
            self._line(f"{phase} ...")

    def share(self, done: int, total: int) -> None:
        """How far the present phase is; its ETA is in proportion."""
        passed = time.monotonic() - self._phase_started
        seconds = passed * (total - done) / done if done else None
        self._show(self._phase, done, total, f"{done}/{total}", seconds)

    def planned(self, plan: Plan, folder: Path) -> None:
        """Say where the answers will lie, and begin to count them."""
        self._line(f"kept in {folder}")
        self._following = dict(zip(plan.cells, plan.cells[1:], strict=False))
        if self._bar is not None:
            self._bar.begin("asking")
            count = f"0/{len(plan.cells)}"
            self._bar.update(cell_words(plan.cells[0]), 0, plan.tokens, count, None)

    def note(self, sentence: str) -> None:
        """Say what was found out about the run."""
        self._line(sentence)

    def event(self, event: Event) -> None:
        """Move the bar to where the run stands."""
        coming = self._following.get(event.cell, event.cell)
        words = cell_words(coming) if self._bar is not None else "asked"
        count = f"{event.done}/{event.total}"
        self._show(words, event.tokens_done, event.tokens_total, count, event.eta_seconds)

    def _show(self, words: str, done: int, total: int, count: str, eta: float | None) -> None:
        if self._bar is not None:
            self._bar.update(words, done, total, count, eta)
            return
        now = time.monotonic()
        if now - self._last_line >= SECONDS_BETWEEN_LINES or done == total:
            self._last_line = now
            left = "" if eta is None else f"  ETA {clock(eta)}"
            self._line(f"{words} {count}{left}, {clock(now - self._started)} passed")

    def _line(self, text: str) -> None:
        from ropewalk.report.text import visible

        self._console.print(visible(text), markup=False, soft_wrap=True)

    def _bar_on_console(self) -> Progress:
        from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
        from rich.progress import Task as BarTask
        from rich.text import Text

        class Remaining(ProgressColumn):
            """Count, and an ETA that goes on counting down while a long prompt is answered."""

            def render(self, task: BarTask) -> Text:
                due: float | None = task.fields["due"]
                if due is None:
                    return Text(f"{task.fields['count']}  {clock(task.elapsed or 0)} passed")
                return Text(f"{task.fields['count']}  ETA {clock(due - time.monotonic())}")

        return Progress(
            SpinnerColumn("line"),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            Remaining(),
            console=self._console,
            transient=True,
        )


class _Bar:
    """One task of rich's progress display, started afresh for each phase.

    Between its ticks it is painted where a phase begins and twice after that, so that one that is
    over before the next tick was seen, with its count and its ETA.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._at_once = 0
        self._task: TaskID = progress.add_task("starting", total=None, count="", due=None)

    def begin(self, phase: str) -> None:
        """A phase of which nothing is known yet: the bar only pulses."""
        self.progress.reset(self._task, total=None, description=phase, count="", due=None)
        self.progress.refresh()
        self._at_once = 2

    def update(self, words: str, done: int, total: int, count: str, eta: float | None) -> None:
        """Where the phase stands, and how many seconds it should still take, if that is known."""
        due = None if eta is None else time.monotonic() + eta
        self.progress.update(
            self._task, description=words, completed=done, total=total, count=count, due=due
        )
        if self._at_once:
            self._at_once -= 1
            self.progress.refresh()
