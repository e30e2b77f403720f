"""How every command shows that it is at work: phases, counts, and how long it should still take.

On a terminal that is a live bar. Elsewhere, so that a log stays readable, it is a line where a
phase begins, a line at most every SECONDS_BETWEEN_LINES while it lasts, and a line with its count
where it ends. All of it goes to stderr: stdout is for results.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from ropewalk.cli.bar import Bar
    from ropewalk.proof.ask import Event
    from ropewalk.proof.cells import Cell
    from ropewalk.proof.plan import Plan

SECONDS_BETWEEN_LINES = 30.0
PATIENCE = 1.0
"""Seconds after which a command that is mostly quick says in a log what it is about."""
_TICK = 0.25


def clock(seconds: float) -> str:
    """A duration as 1:05 or 2:03:09."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def cell_words(cell: Cell) -> str:
    """What is being asked, in the few words that fit before a bar."""
    from ropewalk.proof.cells import Control

    place = f"{cell.length:,} tokens"
    if cell.control is Control.NONE:
        return f"{place} at {cell.depth:.0%}"
    words = {
        Control.NEEDLE_ONLY: "control: needle only",
        Control.NO_NEEDLE: f"control: no needle, {place}",
        Control.END: f"control: needle last, {place}",
    }
    return words[cell.control]


class Progress:
    """A context manager that is told of phases (`say`), of counts (`share`), and of notes.

    `patience`: seconds for which nothing is said in a log, so that quick work leaves none there.
    `now` tells the seconds. A phase's count never falls.
    """

    def __init__(self, patience: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        from ropewalk.cli.output import log_columns

        self._console = Console(stderr=True, highlight=False)
        self._columns = log_columns()
        live = sys.stderr.isatty() and not self._console.is_dumb_terminal
        self._bar = self._made() if live else None
        self._now, self._quiet_until = now, now() + patience
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._phase, self._said = "", False
        self._begun = self._last_line = now()
        self._done, self._count = 0.0, ""
        self._due: float | None = None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        else:
            # Work may be silent for minutes, and nothing but a clock of our own speaks for it.
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._bar is not None:
            self._bar.stop()
        with self._lock:
            if error is None:
                self._end()
            self._phase = ""

    def say(self, phase: str) -> None:
        """Name the phase that begins; the one before it has ended."""
        with self._lock:
            self._end()
            self._phase, self._said = phase, False
            self._begun = self._last_line = self._now()
            self._done, self._count, self._due = 0.0, "", None
            if self._bar is not None:
                self._bar.begin(phase)
            else:
                self.tick()

    def share(self, done: int, total: int) -> None:
        """How far the present phase is; its ETA is in proportion."""
        passed = self._now() - self._begun
        left = passed * (total - done) / done if done else None
        self._show(self._phase, done, total, f"{done:,}/{total:,}", left)

    def so_far(self, count: str) -> None:
        """How much of the present phase is done, in words, where nobody knows how much there is."""
        self._show(self._phase, self._done, None, count, None)

    def note(self, sentence: str) -> None:
        """Say what was found out."""
        with self._lock:
            self._line(sentence)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while results are printed."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()

    def tick(self) -> None:
        """Write the line that is due by now, if one is; a bar needs none."""
        with self._lock:
            now = self._now()
            if self._bar is not None or not self._phase:
                return
            if not self._said:
                if now >= self._quiet_until:
                    self._begin()
            elif now - self._last_line >= SECONDS_BETWEEN_LINES:
                self._last_line = now
                left = "" if self._due is None else f"  ETA {clock(self._due - now)}"
                self._line(f"{self._standing()}{left}, {clock(now - self._begun)} passed")

    def _show(self, words: str, done: float, total: float | None, count: str,
              left: float | None) -> None:  # fmt: skip
        """Where the phase stands: `words` for the bar, `left` seconds to go if that is known."""
        with self._lock:
            if done < self._done:
                return
            self._done, self._count = done, count
            self._due = None if left is None else self._now() + left
            if self._bar is not None:
                self._bar.update(words, done, total, count, left)
            else:
                self.tick()

    def _begin(self) -> None:
        self._said = True
        self._last_line = self._now()
        self._line(f"{self._phase} ...")

    def _end(self) -> None:
        """The last line of a phase that was counted, or that took long."""
        passed = self._now() - self._begun
        if self._bar is not None or not (self._phase and self._said):
            return
        if self._count:
            self._line(f"{self._standing()} in {clock(passed)}")
        elif passed >= SECONDS_BETWEEN_LINES:
            self._line(f"{self._phase} took {clock(passed)}")

    def _standing(self) -> str:
        return f"{self._phase} {self._count}" if self._count else self._phase

    def _watch(self) -> None:
        while not self._stop.wait(_TICK):
            try:
                self.tick()
            except OSError:
                # Nobody reads stderr any more; the work itself says so where it matters.
                return

    def _line(self, text: str) -> None:
        from ropewalk.report.text import visible, wrapped

        safe = visible(text)
        for line in [safe] if self._columns is None else wrapped(safe, self._columns, rest="  "):
            self._console.print(line, markup=False, soft_wrap=True)

    def _made(self) -> Bar:
        from ropewalk.cli.bar import Bar

        return Bar(self._console, self._above)

    def _above(self) -> list[RenderableType]:
        """What is drawn above the bar."""
        return []


class ProofProgress(Progress):
    """Progress whose methods fit `ropewalk.proof.prove.Listener`."""

    _following: Mapping[Cell, Cell] = MappingProxyType({})
    _plan: Plan | None = None

    def say(self, phase: str) -> None:
        """Name the phase that begins; a plan's first prompt is shown before it is answered."""
        from ropewalk.proof.progress import ASKING

        super().say(phase)
        if self._plan is not None and phase == ASKING and self._bar is not None:
            cells = self._plan.cells
            self._show(cell_words(cells[0]), 0, self._plan.tokens, f"0/{len(cells):,}", None)

    def planned(self, plan: Plan, folder: Path) -> None:
        """Say where the answers will lie."""
        self.note(f"kept in {folder}")
        self._plan = plan
        self._following = dict(zip(plan.cells, plan.cells[1:], strict=False))

    def event(self, event: Event) -> None:
        """Move the bar to where the run stands."""
        self._show(
            cell_words(self._following.get(event.cell, event.cell)),
            event.tokens_done,
            event.tokens_total,
            f"{event.done:,}/{event.total:,}",
            event.eta_seconds,
        )
