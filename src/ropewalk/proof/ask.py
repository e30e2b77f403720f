"""The one loop that asks: every cell of a plan that has no answer yet, and every answer kept.

What is kept already is neither asked nor read again, so that the same call goes on where an earlier
one was cut off. A `Subject` says in which order a trial's prompts are asked, and what they share:

- `Alone` asks a model each prompt by itself, in the plan's order;
- `ropewalk.proof.branching.Branching` reads a trial's haystack once, and each needle in its gap;
- `Shared` folds a trial's open prompts into a tree (`ropewalk.proof.reading`) and reads what they
  share only once, shared text first and shortest prompts first;
- `ropewalk.proof.endpoint.subject.Served` asks servers, several trials at once.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ropewalk.errors import RopewalkError
from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt, Row, Sharing
from ropewalk.proof.plan import CostModel, Plan, Prompts
from ropewalk.proof.progress import (
    CellKind,
    Event,
    Pace,
    ReadingPace,
    RunProgress,
    RunResult,
    Work,
    kind_of,
)
from ropewalk.proof.reading import Leaf, Node, paths, share, walk
from ropewalk.proof.store import Store
from ropewalk.proof.subject import Asked, InTime, Subject
from ropewalk.proof.subjects.calls import is_out_of_memory
from ropewalk.short import short

ERRORS_IN_A_ROW = 3
"""After this many ERRORs one after the other something is broken for good."""


@short
@dataclass(frozen=True, slots=True)
class Asking:
    """Where answers go and who is told.

    `hash_of` must cover model, schedule, tokenizer and prompt; the cell is added to it, so that two
    cells with the same tokens still get an answer each. `deadline` in seconds of time.monotonic.
    """

    store: Store
    hash_of: Callable[[Prompt], str]
    on_event: Callable[[Event], None] = lambda _: None
    deadline: float | None = None


def ask(
    plan: Plan, prompts: Prompts, subject: Subject, asking: Asking, sharing: Sharing
) -> RunResult:
    """Ask every cell that has no answer yet, trial by trial. `sharing` is kept with the answers.

    Cells that cannot be laid out are left out, and named in the result; whether a length leaves
    anything to ask is said before a run, by `plan.check_lengths_hold`. Ctrl-C ends the run with
    `interrupted`; a deadline before the first prompt that is not expected to be answered by then.
    Raises RopewalkError after ERRORS_IN_A_ROW errors in a row, EndpointError for what a server says
    to every request, and StoreError when an answer cannot be kept; what was kept stays.
    """
    store, late, errors = asking.store, False, 0
    pace = subject.pace()
    progress = RunProgress(plan, store, sharing, pace)

    def in_time(tokens: int, start: int) -> bool:
        nonlocal late
        if asking.deadline is not None:
            late = late or time.monotonic() + pace.expected(tokens, start) > asking.deadline
        return not late

    def to_ask(cell: Cell) -> Prompt | None:
        """The prompt of a cell, None for one that is answered or cannot be laid out."""
        if cell not in prompts.keys:
            if (prompt := prompts.get(cell)) is None:
                progress.leave(cell, prompts.left_out[cell])
                return None
            prompts.keys[cell] = key_of(cell, asking.hash_of(prompt))
        if not store.done(prompts.keys[cell]):
            return prompts.get(cell)
        prompts.forget(cell)
        asking.on_event(progress.skip(cell))
        return None

    trials = plan.by_trial()
    try:
        subject.ahead(pace, lambda: prompts.all(trials[0]) if trials else [])
        for asked in subject.ask((filter(None, map(to_ask, cells)) for cells in trials), in_time):
            row = _row(asked, prompts.keys[asked.prompt.cell], sharing)
            store.add(row, asked.prompt.text)
            prompts.forget(row.cell)
            asking.on_event(progress.keep(row))
            errors = errors + 1 if row.answer.outcome is Outcome.ERROR else 0
            if errors == ERRORS_IN_A_ROW:
                raise RopewalkError(
                    f"{ERRORS_IN_A_ROW} prompts in a row ended in an error, so that the run was "
                    f"stopped; the last said: {row.answer.printed!r}. What was answered is kept; "
                    "the same command goes on once the cause is gone."
                )
    except KeyboardInterrupt:
        return progress.result(interrupted=True)
    return progress.result(out_of_time=late)


def _row(asked: Asked, key: str, sharing: Sharing) -> Row:
    prompt = asked.prompt
    return Row(
        cell=prompt.cell,
        actual_length=asked.length,
        actual_depth=prompt.depth,
        key=prompt.key,
        value=prompt.value,
        answer=asked.answer,
        prompt_hash=key,
        sharing=sharing,
        tokens_read=asked.read,
    )


def key_of(cell: Cell, prompt_hash: str) -> str:
    """Under what a row is kept: its cell, and the hash of run and prompt."""
    text = f"{prompt_hash}|{cell.length}|{cell.depth!r}|{cell.trial}|{cell.control}|{cell.task}"
    return hashlib.sha256(text.encode()).hexdigest()


def broken(error: Exception, seconds: float = 0.0) -> Answer:
    """What a prompt gets for an answer when its model raised an error."""
    outcome = Outcome.OVERFLOW if is_out_of_memory(error) else Outcome.ERROR
    return Answer(outcome, None, f"{type(error).__name__}: {error}", seconds)


class AnsweringModel(Protocol):
    """A model that answers prompts one by one."""

    def answer(self, prompt: Prompt) -> Answer:
        """Answer one prompt; may raise anything."""

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be taken, None when it can."""


@short
@dataclass(frozen=True, slots=True)
class Alone:
    """Asks each prompt by itself, in the plan's order."""

    model: AnsweringModel

    def pace(self) -> Pace:
        """Each prompt is read whole."""
        return ReadingPace(shared=False)

    def ahead(self, pace: Pace, first: Callable[[], Sequence[Prompt]]) -> None:
        """Nothing is shared: a cell costs its length."""

    def ask(self, trials: Iterable[Iterable[Prompt]], in_time: InTime) -> Iterator[Asked]:
        """One answer after the other; a prompt is laid out when it is its turn."""
        for prompts in trials:
            for prompt in prompts:
                if not in_time(prompt.length, 0):
                    return
                yield Asked(prompt, self._answer(prompt), len(prompt.token_ids), prompt.length)

    def _answer(self, prompt: Prompt) -> Answer:
        """The answer, with everything that can go wrong turned into an outcome.

        Errors of this package pass: they are about the run, not about one prompt.
        """
        reason = self.model.fits(prompt.length)
        if reason is not None:
            return Answer(Outcome.OVERFLOW, None, reason, 0.0)
        start = time.perf_counter()
        try:
            return self.model.answer(prompt)
        except RopewalkError:
            raise
        except Exception as error:  # noqa: BLE001 - a model may raise anything, and one prompt that breaks must not cost the others
            return broken(error, time.perf_counter() - start)


class SharingModel(Protocol):
    """Whatever reads a text piece by piece and answers questions behind it."""

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be taken, None when it can."""

    def regime(self, length: int) -> str:
        """Prompts of different regimes are read differently from their first token on."""

    def start(self, capacity: int) -> None:
        """An empty path, for prompts of one regime and up to `capacity` tokens."""

    def read(self, ids: Sequence[int]) -> None:
        """Append ids to the path. Raises when that cannot be done; the path is as it was."""

    def crop(self, tokens: int) -> None:
        """Forget the last `tokens` tokens of the path."""

    def ask(self, leaves: Sequence[Leaf]) -> list[Answer]:
        """The answers of prompts that go on from the path with their ids, which stays.

        May raise anything; then none of them is answered.
        """

    def together(self, leaves: Sequence[Leaf]) -> int:
        """How many of the leaves, from the first on, to ask at once: at least one."""


@short
@dataclass(frozen=True, slots=True)
class Shared:
    """Asks trial by trial, and reads what the prompts of a trial share only once."""

    model: SharingModel
    cost: CostModel | None = None

    def pace(self) -> ReadingPace:
        """What a prompt goes on from has been read before."""
        return ReadingPace(shared=True, cost=self.cost)

    def ahead(self, pace: Pace, first: Callable[[], Sequence[Prompt]]) -> None:
        """What each kind of cell costs in the walk over the first trial's prompts."""
        if isinstance(pace, ReadingPace):
            pace.works.update(expected_work(first(), self.model))

    def ask(self, trials: Iterable[Iterable[Prompt]], in_time: InTime) -> Iterator[Asked]:
        """Answers in the tree's order, every batch before the next one is asked."""
        for prompts in trials:
            for of_one in by_regime(prompts, self.model):
                if not (yield from _Walk(self.model, in_time).through(of_one)):
                    return


def by_regime(prompts: Iterable[Prompt], model: SharingModel) -> list[list[Prompt]]:
    """Prompts that may share a text: those that the model reads by one schedule."""
    groups: dict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        groups[model.regime(prompt.length)].append(prompt)
    return list(groups.values())


def expected_work(prompts: Sequence[Prompt], model: SharingModel) -> dict[CellKind, Work]:
    """What each kind of cell costs in the walk over one trial's prompts.

    A shared text is charged to the first prompt that is asked behind it. Prompts that the model
    does not take cost nothing.
    """
    works = {kind_of(prompt.cell): (0, 0) for prompt in prompts}
    fitting = [prompt for prompt in prompts if model.fits(prompt.length) is None]
    for group in by_regime(fitting, model):
        unread = 0
        for node, start in paths(share(group)):
            end = start + len(node.ids)
            unread += len(node.ids)
            for leaf in node.leaves:
                works[kind_of(leaf.prompt.cell)] = (end - unread, unread + len(leaf.ids))
                unread = 0
    return works


class Unread:
    """What was read, in tokens and seconds, and not yet charged to an answer."""

    def __init__(self) -> None:
        self._tokens, self._seconds = 0, 0.0

    def note(self, tokens: int, seconds: float) -> None:
        """Note what was read for whoever is asked next."""
        self._tokens += tokens
        self._seconds += seconds

    def asked(self, prompt: Prompt, answer: Answer, own: int = 0) -> Asked:
        """An answer that read `own` tokens, with what was read for it; one that is none has not."""
        tokens = 0
        if answer.log_probability is not None:
            tokens = self._tokens + own
            answer = replace(answer, seconds=answer.seconds + self._seconds)
            self._tokens, self._seconds = 0, 0.0
        return Asked(prompt, answer, tokens, prompt.length)


def answers_of(model: SharingModel, batch: Sequence[Leaf]) -> list[Answer]:
    """The answers of a batch; where asking it together breaks, each leaf by itself.

    Errors of this package pass: they are about the run, not about one prompt.
    """
    begun = time.perf_counter()
    try:
        return model.ask(batch)
    except RopewalkError:
        raise
    except Exception as error:  # noqa: BLE001 - one prompt must not cost the others
        if len(batch) == 1:
            return [broken(error, time.perf_counter() - begun)]
    return [answer for leaf in batch for answer in answers_of(model, [leaf])]


class _Walk:
    """One walk over the tree of a trial's open prompts of one regime."""

    def __init__(self, model: SharingModel, in_time: InTime) -> None:
        self._model, self._in_time = model, in_time
        self._path = 0
        self._unread = Unread()

    def through(self, prompts: Sequence[Prompt]) -> Generator[Asked, None, bool]:
        """Answers of all prompts; returns whether there was time for all."""
        fitting = []
        for prompt in prompts:
            reason = self._model.fits(prompt.length)
            if reason is None:
                fitting.append(prompt)
            else:
                yield self._asked(Leaf(prompt, ()), Answer(Outcome.OVERFLOW, None, reason, 0.0))
        if not fitting:
            return True
        root = share(fitting)
        longest = max(prompt.length for prompt in fitting)
        begun = yield from self._tried(lambda: self._model.start(longest), root)
        # Without recursion, as many prompts make a deep tree: a node comes twice, and is left the
        # second time.
        waiting: list[tuple[Node, bool]] = [(root, False)] if begun else []
        while waiting:
            node, entered = waiting.pop()
            if entered:
                self._model.crop(len(node.ids))
                self._path -= len(node.ids)
                continue
            if not self._in_time(len(node.ids), self._path):
                return False
            if (yield from self._enter(node)):
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))
                if not (yield from self._ask(node)):
                    return False
        return True

    def _enter(self, node: Node) -> Generator[Asked, None, bool]:
        """Read a node's text. Where it cannot be read, nothing below it has an answer."""
        begun = time.perf_counter()
        if not (yield from self._tried(lambda: self._model.read(node.ids), node)):
            return False
        self._path += len(node.ids)
        self._unread.note(len(node.ids), time.perf_counter() - begun)
        return True

    def _ask(self, node: Node) -> Generator[Asked, None, bool]:
        """Ask a node's leaves, batch by batch; returns whether there was time for all."""
        leaves = list(node.leaves)
        while leaves:
            batch = leaves[: self._model.together(leaves)]
            if not self._in_time(sum(len(leaf.ids) for leaf in batch), self._path):
                return False
            for leaf, answer in zip(batch, answers_of(self._model, batch), strict=True):
                yield self._asked(leaf, answer)
            del leaves[: len(batch)]
        return True

    def _tried(self, step: Callable[[], None], node: Node) -> Generator[Asked, None, bool]:
        """Returns whether a step worked; where not, every leaf below the node says why."""
        try:
            step()
        except RopewalkError:
            raise
        except Exception as error:  # noqa: BLE001 - one text must not cost the others
            for each in walk(node):
                for leaf in each.leaves:
                    yield self._asked(leaf, broken(error))
            return False
        return True

    def _asked(self, leaf: Leaf, answer: Answer) -> Asked:
        return self._unread.asked(leaf.prompt, answer, len(leaf.ids))
