"""Where a run stands: what is done, what remains, and how long that should take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ropewalk.proof.cells import JUDGED, Cell, Outcome, Row, Sharing
from ropewalk.proof.plan import CostModel, Plan
from ropewalk.proof.store import Store
from ropewalk.short import short

ASKING = "asking"
"""What the phase is called in which a plan's prompts are answered."""

Work = tuple[int, int]
"""Tokens to read for a cell, and how many stand before them: (start, tokens)."""
Pace = tuple[int, int, float]
"""The same of an answer that was seen, and the seconds it took: (start, tokens, seconds)."""


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


def whole_prompt(cell: Cell) -> Work:
    """What a cell costs that is read by itself."""
    return 0, cell.length


def whole_row(row: Row) -> Pace:
    """What an answer took whose prompt was read by itself, the tokens of the answer with it."""
    return 0, row.actual_length, row.answer.seconds


def shared_row(row: Row) -> Pace:
    """What an answer took whose prompt went on from text that had been read."""
    if not row.tokens_read:
        return whole_row(row)
    return max(0, row.actual_length - row.tokens_read), row.tokens_read, row.answer.seconds


class RunProgress:
    """Counts what is done and expects what remains.

    Cells that the store knows count as done from the start, so that a bar goes on where it
    stood. Should a prompt have changed since, its cell is asked again and counts once. Only rows
    of the run's own `sharing` count; `work` says what each cell costs, and `cost` how long that
    takes until an answer was seen; `pace` says the same of answers.
    """

    def __init__(
        self,
        plan: Plan,
        store: Store,
        sharing: Sharing = Sharing.NONE,
        work: Callable[[Cell], Work] = whole_prompt,
        cost: CostModel | None = None,
        pace: Callable[[Row], Pace] = shared_row,
    ) -> None:
        self._plan, self._store, self._sharing = plan, store, sharing
        rows = self._answered()
        self._work = work
        self._guess = cost or CostModel()
        self._pace = pace
        self._done = {row.cell for row in rows} & set(plan.cells)
        # A cell leaves this once it was tried: an ERROR is not done, but does not remain either.
        self._ahead = dict.fromkeys(cell for cell in plan.cells if cell not in self._done)
        # Kept answers of the same folder tell from the first cell on how fast this goes.
        self._seen = [pace(row) for row in rows if row.answer.outcome in JUDGED]
        self._asked = 0
        self._left_out: dict[Cell, str] = {}

    def _answered(self) -> list[Row]:
        """The kept rows of the run's own sharing, without ERRORs."""
        kept = (row for row in self._store.rows() if row.sharing is self._sharing)
        return [row for row in kept if row.answer.outcome is not Outcome.ERROR]

    def skip(self, cell: Cell) -> Event:
        """Note a cell that was answered by an earlier call."""
        self._done.add(cell)
        return self._event(cell, None)

    def leave(self, left_out: Mapping[Cell, str]) -> None:
        """Note cells that cannot be laid out: they do not remain."""
        self._left_out.update(left_out)
        for cell in left_out:
            self._ahead.pop(cell, None)

    def keep(self, row: Row) -> Event:
        """Note a row that has just been kept."""
        self._asked += 1
        if row.answer.outcome is not Outcome.ERROR:
            self._done.add(row.cell)
        if row.answer.outcome in JUDGED:
            self._seen.append(self._pace(row))
        return self._event(row.cell, row)

    def expected(self, tokens: int, start: int = 0) -> float:
        """Seconds that so many tokens behind `start` others should take, by what was seen."""
        return self.cost().seconds(tokens, start)

    def cost(self) -> CostModel:
        """How long tokens take, by what was seen."""
        return self._guess.fit_work(self._seen)

    def result(self, *, interrupted: bool, out_of_time: bool = False) -> RunResult:
        """How the run ended. What is kept is counted anew: an interrupt may have come in between
        the keeping of an answer and the noting of it.
        """
        self._done |= {row.cell for row in self._answered()} & set(self._plan.cells)
        done = len(self._done)
        remaining = len(self._plan.cells) - len(self._done | self._left_out.keys())
        return RunResult(
            done, remaining, self._asked, interrupted, out_of_time, dict(self._left_out)
        )

    def _event(self, cell: Cell, row: Row | None) -> Event:
        self._ahead.pop(cell, None)
        cost = self.cost()
        work = (self._work(each) for each in self._ahead)
        return Event(
            cell=cell,
            done=len(self._done),
            total=len(self._plan.cells) - len(self._left_out),
            tokens_done=sum(each.length for each in self._done),
            tokens_total=self._plan.tokens - sum(each.length for each in self._left_out),
            eta_seconds=sum(cost.seconds(tokens, start) for start, tokens in work),
            row=row,
        )
