"""Where a run stands: what is done, what remains, and how long that should take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ropewalk.proof.cells import JUDGED, UNANSWERED, Cell, Control, Row, Sharing
from ropewalk.proof.plan import CostModel, Plan
from ropewalk.proof.store import Store
from ropewalk.short import short

ASKING = "asking"
"""What the phase is called in which a plan's prompts are answered."""

Work = tuple[int, int]
"""Tokens to read for a cell, and how many stand before them: (start, tokens)."""
CellKind = tuple[int, float, Control, str]
"""A cell without its trial."""


@short
@dataclass(frozen=True, slots=True)
class Event:
    """Where a run stands after one cell. Counts cells and prompt tokens, kept ones included.

    `eta_seconds` weighs what remains by what was seen; `row` is the answer just kept, None when
    the cell had been answered earlier.
    """

    cell: Cell
    done: int
    total: int
    tokens_done: int
    tokens_total: int
    eta_seconds: float
    row: Row | None


@short
@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `done` counts the cells with a kept answer, an ERROR not included.

    `asked` counts the prompts that this call asked. `out_of_time`: the next prompt would not have
    been answered before the deadline. `left_out` says why cells could not be laid out; they
    neither are done nor remain.
    """

    done: int
    remaining: int
    asked: int
    interrupted: bool
    out_of_time: bool = False
    left_out: Mapping[Cell, str] = field(default_factory=dict)


class Pace(Protocol):
    """How fast answers come, by those that were seen."""

    def see(self, row: Row, *, kept: bool) -> None:
        """Note an answer; `kept` where an earlier call had asked for it."""

    def expected(self, tokens: int, start: int) -> float:
        """Seconds until a prompt is answered of which so many tokens are read behind `start`."""

    def left(self, cells: Iterable[Cell]) -> float:
        """Seconds that all of these should take."""


class ReadingPace:
    """The pace of a model that answers one prompt after the other: what reading tokens takes.

    `works` says what a kind of cell costs where beginnings are shared; others are read whole.
    `cost` is expected before the first answer.
    """

    def __init__(self, *, shared: bool, cost: CostModel | None = None) -> None:
        self.works: dict[CellKind, Work] = {}
        self._shared = shared
        self._guess = cost or CostModel()
        self._seen: list[tuple[int, int, float]] = []

    def see(self, row: Row, *, kept: bool) -> None:  # noqa: ARG002 - as fast as one of this call
        """Kept answers of the same folder tell from the first cell on how fast this goes."""
        if row.answer.outcome in JUDGED:
            self._seen.append((*work_of(row, shared=self._shared), row.answer.seconds))

    def expected(self, tokens: int, start: int) -> float:
        """Seconds that so many tokens behind `start` others should take."""
        return self._cost().seconds(tokens, start)

    def left(self, cells: Iterable[Cell]) -> float:
        """Seconds for all the cells, each by what it costs."""
        cost = self._cost()
        works = (self.works.get(kind_of(cell), (0, cell.length)) for cell in cells)
        return sum(cost.seconds(tokens, start) for start, tokens in works)

    def _cost(self) -> CostModel:
        return self._guess.fit_work(self._seen)


class ClockPace:
    """The pace of servers that answer side by side: by the clock, requests that overlap once."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._tokens = 0
        self._longest = 0.0

    def see(self, row: Row, *, kept: bool) -> None:
        """Only what this call asked was timed by its clock."""
        if not kept:
            self._tokens += row.cell.length
            self._longest = max(self._longest, row.answer.seconds)

    def expected(self, _tokens: int, _start: int) -> float:
        """The most seconds that an answer took: what the next may take."""
        return self._longest

    def left(self, cells: Iterable[Cell]) -> float:
        """In proportion to the tokens asked so far; 0 before the first answer."""
        passed = time.monotonic() - self._begun
        left = sum(cell.length for cell in cells)
        return left * passed / self._tokens if self._tokens else 0.0


def kind_of(cell: Cell) -> CellKind:
    """What a cell has in common with the cells of other trials."""
    return cell.length, cell.depth, cell.control, cell.task


def work_of(row: Row, *, shared: bool) -> Work:
    """What was read for an answer, and behind how much: all of it, or what was not read before."""
    if not shared or not row.tokens_read:
        return 0, row.actual_length
    return max(0, row.actual_length - row.tokens_read), row.tokens_read


class RunProgress:
    """Counts what is done and expects what remains.

    Cells that the store knows count as done from the start, so that a bar goes on where it
    stood. Should a prompt have changed since, its cell is asked again and counts once. Only rows
    of the run's own `sharing` count.
    """

    def __init__(self, plan: Plan, store: Store, sharing: Sharing, pace: Pace) -> None:
        self._plan, self._store, self._sharing, self._pace = plan, store, sharing, pace
        rows = self._answered()
        self._done = {row.cell for row in rows} & set(plan.cells)
        # A cell leaves this once it was tried: an ERROR is not done, but does not remain either.
        self._ahead = dict.fromkeys(cell for cell in plan.cells if cell not in self._done)
        for row in rows:
            pace.see(row, kept=True)
        self._asked = 0
        self._left_out: dict[Cell, str] = {}

    def _answered(self) -> list[Row]:
        """The kept rows of the run's own sharing, without what is no answer."""
        kept = (row for row in self._store.rows() if row.sharing is self._sharing)
        return [row for row in kept if row.answer.outcome not in UNANSWERED]

    def skip(self, cell: Cell) -> Event:
        """Note a cell that was answered by an earlier call."""
        self._done.add(cell)
        return self._event(cell, None)

    def leave(self, cell: Cell, why: str) -> None:
        """Note a cell that cannot be laid out: it does not remain."""
        self._left_out[cell] = why
        self._ahead.pop(cell, None)

    def keep(self, row: Row) -> Event:
        """Note a row that has just been kept."""
        self._asked += 1
        if row.answer.outcome not in UNANSWERED:
            self._done.add(row.cell)
        self._pace.see(row, kept=False)
        return self._event(row.cell, row)

    def result(self, *, interrupted: bool = False, out_of_time: bool = False) -> RunResult:
        """How the run ended. What is kept is counted anew: an interrupt may have come in between
        the keeping of an answer and the noting of it.
        """
        self._done |= {row.cell for row in self._answered()} & set(self._plan.cells)
        left = len(self._plan.cells) - len(self._done | self._left_out.keys())
        late, out = out_of_time and left > 0, dict(self._left_out)
        return RunResult(len(self._done), left, self._asked, interrupted, late, out)

    def _event(self, cell: Cell, row: Row | None) -> Event:
        self._ahead.pop(cell, None)
        return Event(
            cell=cell,
            done=len(self._done),
            total=len(self._plan.cells) - len(self._left_out),
            tokens_done=sum(each.length for each in self._done),
            tokens_total=self._plan.tokens - sum(each.length for each in self._left_out),
            eta_seconds=self._pace.left(self._ahead),
            row=row,
        )
