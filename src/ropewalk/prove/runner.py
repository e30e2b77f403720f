"""Asks a plan's questions one by one and keeps every answer before the next is asked.

What is kept already is not asked again, so that the same call goes on where an earlier one was
cut off.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ropewalk.errors import RopewalkError
from ropewalk.prove.cells import JUDGED, Answer, Cell, Outcome, Prompt, Row
from ropewalk.prove.plan import CostModel, Plan
from ropewalk.prove.store import Store
from ropewalk.prove.subjects.memory import is_out_of_memory

ERRORS_IN_A_ROW = 3
"""After this many ERRORs one after the other something is broken for good."""


class Subject(Protocol):
    """Whatever answers prompts: a model run here, an endpoint, a fake in a test."""

    def answer(self, prompt: Prompt) -> Answer:
        """Answer one prompt; may raise anything."""

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be taken, None when it can."""


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


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `done` counts the cells with a kept answer, an ERROR not included.

    `asked` counts the prompts that this call asked. `out_of_time`: the next prompt would not have
    been answered before the deadline.
    """

    done: int
    remaining: int
    asked: int
    interrupted: bool
    out_of_time: bool = False


def run(
    plan: Plan,
    make_prompt: Callable[[Cell], Prompt],
    subject: Subject,
    store: Store,
    hash_of: Callable[[Prompt], str],
    on_event: Callable[[Event], None],
    deadline: float | None = None,
) -> RunResult:
    """Ask every cell that has no answer yet, in the plan's order.

    `hash_of` must cover model, schedule, tokenizer and prompt; the cell is added to it here, so
    that two cells with the same tokens still get an answer each. One prompt of every length is
    made before the first is asked: its LengthError comes through before any work. Ctrl-C ends
    the run with `interrupted`; a `deadline`, in seconds of time.monotonic, ends it before the
    first prompt that is not expected to be answered by then. Raises RopewalkError after
    ERRORS_IN_A_ROW errors in a row, and StoreError when an answer cannot be kept; in both cases
    what was kept stays.
    """
    progress = _Progress(plan, store)
    errors_in_a_row = 0
    try:
        for kind in {(cell.length, cell.control): cell for cell in plan.cells}.values():
            make_prompt(kind)
        for cell in plan.cells:
            prompt = make_prompt(cell)
            key = key_of(cell, hash_of(prompt))
            if store.done(key):
                on_event(progress.skip(cell))
                continue
            if deadline is not None and time.monotonic() + progress.expected(prompt) > deadline:
                return progress.result(interrupted=False, out_of_time=True)
            row = Row(
                cell=cell,
                actual_length=prompt.length,
                actual_depth=prompt.depth,
                key=prompt.key,
                value=prompt.value,
                answer=_ask(subject, prompt),
                prompt_hash=key,
            )
            store.add(row, prompt.text)
            on_event(progress.keep(row))
            errors_in_a_row = errors_in_a_row + 1 if row.answer.outcome is Outcome.ERROR else 0
            if errors_in_a_row == ERRORS_IN_A_ROW:
                raise RopewalkError(
                    f"{ERRORS_IN_A_ROW} prompts in a row ended in an error, so that the run was "
                    f"stopped; the last said: {row.answer.printed!r}. What was answered is kept; "
                    "the same command goes on once the cause is gone."
                )
    except KeyboardInterrupt:
        return progress.result(interrupted=True)
    return progress.result(interrupted=False)


class _Progress:
    """Counts what is done and expects what remains.

    Cells that the store knows count as done from the start, so that a bar goes on where it
    stood. Should a prompt have changed since, its cell is asked again and counts once.
    """

    def __init__(self, plan: Plan, store: Store) -> None:
        rows = [row for row in store.rows() if row.answer.outcome is not Outcome.ERROR]
        self._plan = plan
        self._done = {row.cell for row in rows} & set(plan.cells)
        # A cell leaves this once it was tried: an ERROR is not done, but does not remain either.
        self._ahead = dict.fromkeys(cell for cell in plan.cells if cell not in self._done)
        # Kept answers of the same folder tell from the first cell on how fast this goes.
        self._seen = [_pace(row) for row in rows if row.answer.outcome in JUDGED]
        self._asked = 0

    def skip(self, cell: Cell) -> Event:
        """Note a cell that was answered by an earlier call."""
        self._done.add(cell)
        return self._event(cell, None)

    def keep(self, row: Row) -> Event:
        """Note a row that has just been kept."""
        self._asked += 1
        if row.answer.outcome is not Outcome.ERROR:
            self._done.add(row.cell)
        if row.answer.outcome in JUDGED:
            self._seen.append(_pace(row))
        return self._event(row.cell, row)

    def expected(self, prompt: Prompt) -> float:
        """Seconds that a prompt should take, by what was seen."""
        return CostModel().fit(self._seen).seconds(prompt.length)

    def result(self, *, interrupted: bool, out_of_time: bool = False) -> RunResult:
        """How the run ended."""
        done = len(self._done)
        remaining = len(self._plan.cells) - done
        return RunResult(done, remaining, self._asked, interrupted, out_of_time)

    def _event(self, cell: Cell, row: Row | None) -> Event:
        self._ahead.pop(cell, None)
        return Event(
            cell=cell,
            done=len(self._done),
            total=len(self._plan.cells),
            tokens_done=sum(each.length for each in self._done),
            tokens_total=self._plan.tokens,
            eta_seconds=CostModel().fit(self._seen).eta(self._ahead),
            row=row,
        )


def _pace(row: Row) -> tuple[int, float]:
    return row.actual_length, row.answer.seconds


def key_of(cell: Cell, prompt_hash: str) -> str:
    """Under what a row is kept: its cell, and the hash of run and prompt."""
    text = f"{prompt_hash}|{cell.length}|{cell.depth!r}|{cell.trial}|{cell.control}|{cell.task}"
    return hashlib.sha256(text.encode()).hexdigest()


def _ask(subject: Subject, prompt: Prompt) -> Answer:
    """The subject's answer, with everything that can go wrong turned into an outcome.

    Errors of this package pass: they are about the run, not about one prompt.
    """
    reason = subject.fits(prompt.length)
    if reason is not None:
        return Answer(Outcome.OVERFLOW, None, reason, 0.0)
    start = time.perf_counter()
    try:
        return subject.answer(prompt)
    except RopewalkError:
        raise
    except Exception as error:  # noqa: BLE001 - a model may raise anything, and one prompt that breaks must not cost the others
        outcome = Outcome.OVERFLOW if is_out_of_memory(error) else Outcome.ERROR
        seconds = time.perf_counter() - start
        return Answer(outcome, None, f"{type(error).__name__}: {error}", seconds)
