"""The live bar that stands at the foot of a terminal while a command works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.progress import Task as BarTask
from rich.table import Column
from rich.text import Text

from ropewalk.cli.progress import clock

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_WIDEST = 20
"""Cells of the bar itself, on a terminal that is not narrow."""


class _Remaining(ProgressColumn):
    """An ETA that goes on counting down while a long step is done, or the time that has passed."""

    def render(self, task: BarTask) -> Text:
        due: float | None = task.fields["due"]
        if due is None:
            return Text(f"{clock(task.elapsed or 0)} passed")
        return Text(f"ETA {clock(due - time.monotonic())}")


class _Shown(RichProgress):
    """The bar, and above it what a command draws while it works."""

    above: Callable[[], Iterable[RenderableType]] = staticmethod(lambda: ())

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from self.above()
        yield self.make_tasks_table(self.tasks)


class Bar:
    """One task of rich's progress display, started afresh for each phase.

    Words are folded where the terminal is narrow; the ETA never is. Between its ticks the bar is
    painted where a phase begins and twice after that, so that one that is over before the next
    tick was seen, with its count and its ETA.
    """

    def __init__(self, console: Console, above: Callable[[], Iterable[RenderableType]]) -> None:
        self._shown = _Shown(
            SpinnerColumn("line"),
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(bar_width=min(_WIDEST, console.width // 4)),
            TextColumn("{task.fields[count]}", markup=False, table_column=Column(overflow="fold")),
            _Remaining(table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            # Results may go into a file while the bar is on the terminal.
            redirect_stdout=False,
        )
        self._shown.above = above
        self._at_once = 0
        self._task = self._shown.add_task("starting", total=None, count="", due=None)

    def start(self) -> None:
        """Show it."""
        self._shown.start()

    def stop(self) -> None:
        """Take it away."""
        self._shown.stop()

    def begin(self, phase: str) -> None:
        """A phase of which nothing is known yet: the bar only pulses."""
        self._shown.reset(self._task, total=None, description=phase, count="", due=None)
        self._shown.refresh()
        self._at_once = 2

    def update(
        self, words: str, done: float, total: float | None, count: str, left: float | None
    ) -> None:
        """Where the phase stands, and how many seconds it should still take, if that is known."""
        due = None if left is None else time.monotonic() + left
        self._shown.update(
            self._task, description=words, completed=done, total=total, count=count, due=due
        )
        if self._at_once:
            self._at_once -= 1
            self._shown.refresh()
