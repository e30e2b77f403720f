"""Asks a plan's questions one by one and keeps every answer before the next is asked.

What is kept already is not asked again, so that the same call goes on where an earlier one was
cut off.

Asks a plan's questions trial by trial, and reads what the prompts of a trial share only once.

The prompts of a trial that are still open are folded into a tree (`ropewalk.proof.reading`), so
that what was answered by an earlier call is neither asked nor read again. Answers are kept as they
come: every batch before the next one is asked.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ropewalk.errors import RopewalkError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Prompt, Row, Sharing
from ropewalk.proof.plan import CostModel, Laying, Plan
from ropewalk.proof.progress import Event, RunProgress, RunResult, Work, whole_row
from ropewalk.proof.reading import Leaf, Node, paths, share, walk
from ropewalk.proof.store import Store
from ropewalk.proof.subjects.calls import is_out_of_memory
from ropewalk.proof.subjects.local import SharingSubject

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
    progress = RunProgress(plan, store, pace=whole_row)
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


FactKind = tuple[int, float, Control, str]
"""A cell without its trial."""


def kind_of(cell: Cell) -> FactKind:
    """What a cell has in common with the cells of other trials."""
    return cell.length, cell.depth, cell.control, cell.task


def run_shared(
    plan: Plan,
    make_prompt: Callable[[Cell], Prompt],
    subject: SharingSubject,
    store: Store,
    hash_of: Callable[[Prompt], str],
    on_event: Callable[[Event], None],
    deadline: float | None = None,
    *,
    sharing: Sharing,
    cost: CostModel | None = None,
) -> RunResult:
    """Ask every cell that has no answer yet; the same promises as `ropewalk.proof.ask.run`.

    Within a trial the order is the tree's: shared text first, shortest prompts first. `sharing`
    is kept with the answers; `cost` says what to expect before the first of them.
    """
    errors = ErrorsInARow()
    laying = Laying(make_prompt)
    works: dict[FactKind, Work] = {}
    progress = RunProgress(
        plan, store, sharing, lambda cell: works.get(kind_of(cell), (0, cell.length)), cost
    )
    try:
        trials = plan.by_trial()
        works.update(expected_work(laying.all(trials[0]), subject) if trials else {})
        walker = _Walker(subject, store, progress, errors, on_event, deadline, sharing)
        for cells in trials:
            prompts = laying.all(cells)
            progress.leave(laying.left_out)
            keys = {prompt.cell: key_of(prompt.cell, hash_of(prompt)) for prompt in prompts}
            open_ones = []
            for prompt in prompts:
                if store.done(keys[prompt.cell]):
                    on_event(progress.skip(prompt.cell))
                else:
                    open_ones.append(prompt)
            for prompts_of_one in by_regime(open_ones, subject):
                if not walker.walk(prompts_of_one, keys):
                    return progress.result(interrupted=False, out_of_time=True)
    except KeyboardInterrupt:
        return progress.result(interrupted=True)
    return progress.result(interrupted=False)


def by_regime(prompts: Iterable[Prompt], subject: SharingSubject) -> list[list[Prompt]]:
    """Prompts that may share a text: those that the model reads by one schedule."""
    groups: dict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        groups[subject.regime(prompt.length)].append(prompt)
    return list(groups.values())


def expected_work(prompts: Sequence[Prompt], subject: SharingSubject) -> dict[FactKind, Work]:
    """What each kind of cell costs in the walk over one trial's prompts.

    A shared text is charged to the first prompt that is asked behind it. Prompts that the subject
    does not take cost nothing.
    """
    works = {kind_of(prompt.cell): (0, 0) for prompt in prompts}
    fitting = [prompt for prompt in prompts if subject.fits(prompt.length) is None]
    for group in by_regime(fitting, subject):
        unread = 0
        for node, start in paths(share(group)):
            end = start + len(node.ids)
            unread += len(node.ids)
            for leaf in node.leaves:
                works[kind_of(leaf.prompt.cell)] = (end - unread, unread + len(leaf.ids))
                unread = 0
    return works


class _Walker:
    """One walk after the other over trees of open prompts."""

    def __init__(
        self,
        subject: SharingSubject,
        store: Store,
        progress: RunProgress,
        errors: ErrorsInARow,
        on_event: Callable[[Event], None],
        deadline: float | None,
        sharing: Sharing,
    ) -> None:
        self._subject = subject
        self._store = store
        self._progress = progress
        self._errors = errors
        self._on_event = on_event
        self._deadline = deadline
        self._sharing = sharing
        self._keys: Mapping[Cell, str] = {}
        self._path = 0
        # Read and not yet charged to an answer.
        self._unread_for = 0
        self._seconds = 0.0

    def walk(self, prompts: Sequence[Prompt], keys: Mapping[Cell, str]) -> bool:
        """Ask the prompts of one regime of one trial; whether there was time for all."""
        self._keys = keys
        fitting = []
        for prompt in prompts:
            reason = self._subject.fits(prompt.length)
            if reason is None:
                fitting.append(prompt)
            else:
                self._keep(Leaf(prompt, ()), Answer(Outcome.OVERFLOW, None, reason, 0.0))
        if not fitting:
            return True
        self._path = self._unread_for = 0
        self._seconds = 0.0
        root = share(fitting)
        begun = self._tried(lambda: self._subject.start(max(p.length for p in fitting)), root)
        # Without recursion: many prompts make a deep tree. None takes the path back.
        waiting: list[tuple[Node, bool]] = [(root, False)] if begun else []
        while waiting:
            node, entered = waiting.pop()
            if entered:
                self._leave(node)
                continue
            if not self._in_time(node):
                return False
            if self._enter(node):
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))
                if not self._ask(node):
                    return False
        return True

    def _enter(self, node: Node) -> bool:
        """Read a node's text. Where it cannot be read, nothing below it has an answer."""
        begun = time.perf_counter()
        if not self._tried(lambda: self._subject.read(node.ids), node):
            return False
        self._seconds += time.perf_counter() - begun
        self._path += len(node.ids)
        self._unread_for += len(node.ids)
        return True

    def _leave(self, node: Node) -> None:
        self._subject.crop(len(node.ids))
        self._path -= len(node.ids)

    def _ask(self, node: Node) -> bool:
        """Ask a node's leaves, batch by batch; whether there was time for all."""
        leaves = list(node.leaves)
        while leaves:
            batch = leaves[: self._subject.together(leaves)]
            if not self._in_time(node, batch):
                return False
            for leaf, answer in zip(batch, self._answers(batch), strict=True):
                self._keep(leaf, answer)
            del leaves[: len(batch)]
        return True

    def _answers(self, batch: Sequence[Leaf]) -> list[Answer]:
        """The answers of a batch; where asking it together breaks, each leaf by itself."""
        begun = time.perf_counter()
        try:
            return self._subject.ask(batch)
        except RopewalkError:
            raise
        except Exception as error:  # noqa: BLE001 - as in the runner: one prompt must not cost the others
            if len(batch) == 1:
                return [broken(error, time.perf_counter() - begun)]
        return [answer for leaf in batch for answer in self._answers([leaf])]

    def _tried(self, step: Callable[[], None], node: Node) -> bool:
        """Whether a step worked; where not, every leaf below the node says why."""
        try:
            step()
        except RopewalkError:
            raise
        except Exception as error:  # noqa: BLE001 - as in the runner
            for each in walk(node):
                for leaf in each.leaves:
                    self._keep(leaf, broken(error))
            return False
        return True

    def _keep(self, leaf: Leaf, answer: Answer) -> None:
        prompt = leaf.prompt
        judged = answer.log_probability is not None
        tokens = self._unread_for + len(leaf.ids) if judged else 0
        if judged:
            answer = replace(answer, seconds=answer.seconds + self._seconds)
            self._unread_for, self._seconds = 0, 0.0
        row = Row(
            cell=prompt.cell,
            actual_length=prompt.length,
            actual_depth=prompt.depth,
            key=prompt.key,
            value=prompt.value,
            answer=answer,
            prompt_hash=self._keys[prompt.cell],
            sharing=self._sharing,
            tokens_read=tokens,
        )
        self._store.add(row, prompt.text)
        self._on_event(self._progress.keep(row))
        self._errors.note(answer)

    def _in_time(self, node: Node, batch: Sequence[Leaf] = ()) -> bool:
        """Whether a node, or a batch behind it, should be through before the deadline."""
        if self._deadline is None:
            return True
        tokens = sum(len(leaf.ids) for leaf in batch) or len(node.ids)
        return time.monotonic() + self._progress.expected(tokens, self._path) <= self._deadline
