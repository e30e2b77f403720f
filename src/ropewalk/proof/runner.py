"""Asks a plan's questions one by one and keeps every answer before the next is asked.

What is kept already is not asked again, so that the same call goes on where an earlier one was
cut off.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Protocol

from ropewalk.errors import RopewalkError
from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt, Row
from ropewalk.proof.laying import Laying
from ropewalk.proof.plan import Plan
from ropewalk.proof.progress import Event, Progress, RunResult, whole_row
from ropewalk.proof.store import Store
from ropewalk.proof.subjects.memory import is_out_of_memory

__all__ = ["Event", "RunResult", "Subject", "broken", "key_of", "run"]

ERRORS_IN_A_ROW = 3
"""After this many ERRORs one after the other something is broken for good."""


class Subject(Protocol):
    """Whatever answers prompts: a model run here, an endpoint, a fake in a test."""

    def answer(self, prompt: Prompt) -> Answer:
        """Answer one prompt; may raise anything."""

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be taken, None when it can."""


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
    that two cells with the same tokens still get an answer each. Cells for which `make_prompt`
    raises LengthError are left out, and named in the result; whether a length leaves anything to
    ask is said before a run, by `laying.check_lengths_hold`. Ctrl-C ends the run with
    `interrupted`; a `deadline`, in seconds of time.monotonic, ends it before the first prompt that
    is not expected to be answered by then. Raises RopewalkError after ERRORS_IN_A_ROW errors in a
    row, and StoreError when an answer cannot be kept; in both cases what was kept stays.
    """
    progress = Progress(plan, store, pace=whole_row)
    errors = ErrorsInARow()
    laying = Laying(make_prompt)
    try:
        for cell in plan.cells:
            prompt = laying(cell)
            if prompt is None:
                progress.leave(laying.left_out)
                continue
            key = key_of(cell, hash_of(prompt))
            if store.done(key):
                on_event(progress.skip(cell))
                continue
            if (
                deadline is not None
                and time.monotonic() + progress.expected(prompt.length) > deadline
            ):
                return progress.result(interrupted=False, out_of_time=True)
            row = Row(
                cell=cell,
                actual_length=prompt.length,
                actual_depth=prompt.depth,
                key=prompt.key,
                value=prompt.value,
                answer=_ask(subject, prompt),
                prompt_hash=key,
                tokens_read=len(prompt.token_ids),
            )
            store.add(row, prompt.text)
            on_event(progress.keep(row))
            errors.note(row.answer)
    except KeyboardInterrupt:
        return progress.result(interrupted=True)
    return progress.result(interrupted=False)


class ErrorsInARow:
    """Stops a run in which nothing works any more."""

    def __init__(self) -> None:
        self._count = 0

    def note(self, answer: Answer) -> None:
        """Count an answer. Raises RopewalkError at the last of ERRORS_IN_A_ROW errors."""
        self._count = self._count + 1 if answer.outcome is Outcome.ERROR else 0
        if self._count == ERRORS_IN_A_ROW:
            raise RopewalkError(
                f"{ERRORS_IN_A_ROW} prompts in a row ended in an error, so that the run was "
                f"stopped; the last said: {answer.printed!r}. What was answered is kept; "
                "the same command goes on once the cause is gone."
            )


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
        return broken(error, time.perf_counter() - start)


def broken(error: Exception, seconds: float = 0.0) -> Answer:
    """What a prompt gets for an answer when its model raised an error."""
    outcome = Outcome.OVERFLOW if is_out_of_memory(error) else Outcome.ERROR
    return Answer(outcome, None, f"{type(error).__name__}: {error}", seconds)
