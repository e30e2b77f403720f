"""Asks servers a plan's questions, several at once, and keeps every answer as it comes.

One thread, the caller's, writes. What is kept already is not asked again. The answers come in
any order; the kept table does not depend on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ropewalk.proof.ask import ErrorsInARow, key_of
from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt, Row, Sharing
from ropewalk.proof.endpoint.policy import RequestGate
from ropewalk.proof.endpoint.replies import counts_of
from ropewalk.proof.endpoint.subject import EndpointSubject
from ropewalk.proof.endpoint.work import Pool, Server, in_cache_order
from ropewalk.proof.plan import Laying, Plan
from ropewalk.proof.progress import Event, RunResult
from ropewalk.proof.store import Store
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Asking:
    """Who is asked: a model, its servers, and the gate that every request passes."""

    subject: EndpointSubject
    servers: Sequence[Server]
    gate: RequestGate


def run_endpoint(
    plan: Plan,
    make_prompt: Callable[[Cell], Prompt],
    asking: Asking,
    store: Store,
    hash_of: Callable[[Prompt], str],
    on_event: Callable[[Event], None],
    *,
    deadline: float | None = None,
    say: Callable[[str], None] = lambda _: None,
    sharing: Sharing = Sharing.PREFIX,
) -> RunResult:
    """Ask every cell that has no answer yet; trials side by side, each in the cache's order.

    The rest is as `ropewalk.proof.ask.run` has it. Raises EndpointError for what a server says
    to every request, and when no server is left.
    """
    keys: dict[Cell, str] = {}
    laying = Laying(make_prompt)
    progress = _Progress(plan, store, sharing)

    def lanes() -> Iterator[list[Prompt]]:
        """The prompts to ask, a lane a trial."""
        for cells in plan.by_trial():
            lane = []
            prompts = laying.all(cells)
            progress.leave(laying.left_out)
            for prompt in prompts:
                cell = prompt.cell
                keys[cell] = key_of(cell, hash_of(prompt))
                if store.done(keys[cell]):
                    on_event(progress.event(cell, None))
                else:
                    lane.append(prompt)
            yield in_cache_order(lane) if lane else []

    late = threading.Event()

    def go_on(_: Prompt) -> bool:
        if deadline is not None and time.monotonic() + progress.longest > deadline:
            late.set()
        return not late.is_set()

    pool = Pool(asking.servers, asking.subject.answer, asking.gate, go_on=go_on, told=say)
    errors = ErrorsInARow()
    try:
        for prompt, answer in pool.answers(lanes()):
            row = _row(prompt, answer, keys[prompt.cell], asking.subject, sharing)
            store.add(row, prompt.text)
            on_event(progress.event(prompt.cell, row))
            errors.note(answer)
    except KeyboardInterrupt:
        return progress.result(interrupted=True)
    return progress.result(out_of_time=late.is_set())


def _row(
    prompt: Prompt, answer: Answer, key: str, subject: EndpointSubject, sharing: Sharing
) -> Row:
    read, cached = counts_of(answer)
    return Row(
        cell=prompt.cell,
        actual_length=subject.actual_length(prompt),
        actual_depth=prompt.depth,
        key=prompt.key,
        value=prompt.value,
        answer=answer,
        prompt_hash=key,
        sharing=sharing,
        tokens_read=max(0, (read or 0) - (cached or 0)),
    )


class _Progress:
    """Where a run stands, and its pace on the clock: requests that overlap count once."""

    def __init__(self, plan: Plan, store: Store, sharing: Sharing) -> None:
        self._plan = plan
        self._done = set(plan.cells) & {
            row.cell
            for row in store.rows()
            if row.answer.outcome is not Outcome.ERROR and row.sharing is sharing
        }
        self._begun = time.monotonic()
        self._tokens_done = sum(cell.length for cell in self._done)
        self._tokens_asked = 0
        self.longest = 0.0
        """The most seconds that an answer took: what the next may take."""
        self._asked = 0
        self._left_out: dict[Cell, str] = {}

    def leave(self, left_out: Mapping[Cell, str]) -> None:
        """Note cells that cannot be laid out: they do not remain."""
        self._left_out.update(left_out)

    def event(self, cell: Cell, row: Row | None) -> Event:
        """Note a row just kept, or that a cell had been answered before."""
        if row is not None:
            self._asked += 1
            self._tokens_asked += cell.length
            self.longest = max(self.longest, row.answer.seconds)
        if cell not in self._done and (row is None or row.answer.outcome is not Outcome.ERROR):
            self._done.add(cell)
            self._tokens_done += cell.length
        return Event(
            cell=cell,
            done=len(self._done),
            total=len(self._plan.cells) - len(self._left_out),
            tokens_done=self._tokens_done,
            tokens_total=self._tokens_total,
            eta_seconds=self._eta(),
            row=row,
        )

    def result(self, *, interrupted: bool = False, out_of_time: bool = False) -> RunResult:
        """How the run ended."""
        done = len(self._done)
        left = len(self._plan.cells) - len(self._done | self._left_out.keys())
        late = out_of_time and left > 0
        return RunResult(done, left, self._asked, interrupted, late, dict(self._left_out))

    @property
    def _tokens_total(self) -> int:
        return self._plan.tokens - sum(cell.length for cell in self._left_out)

    def _eta(self) -> float:
        left = self._tokens_total - self._tokens_done
        passed = time.monotonic() - self._begun
        return left * passed / self._tokens_asked if self._tokens_asked else 0.0
