"""The walk over shared prompts, with a subject that checks what stands before every question."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ropewalk.errors import LengthError, RopewalkError, StoreError
from ropewalk.proof.ask import Asking, Shared, ask, expected_work
from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt, Row, Sharing
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.plan import Plan, Prompts, make_plan
from ropewalk.proof.progress import Event, RunResult, kind_of
from ropewalk.proof.reading import Leaf
from ropewalk.proof.store import Store

PLAN = make_plan([64, 128, 300], [0.0, 0.5, 1.0], trials=3, control_trials=1)


def make_prompt(cell: Cell) -> Prompt:
    """A trial's document up to the length, and a question of its own of seven tokens."""
    document = Random(cell.trial).choices(range(1000), k=400)
    question = Random(str(cell)).choices(range(1000, 2000), k=7)
    ids = (*document[: max(0, cell.length - 8)], *question)
    return Prompt(cell, ids, (2,), 0, cell.depth, "key", "value", (), f"{cell}", 1)


def hash_of(prompt: Prompt) -> str:
    return prompt.text


class Fake:
    """Keeps the path, insists that path and question make up the prompt, and counts tokens."""

    def __init__(
        self, reply: Callable[[Prompt], Outcome] = lambda _: Outcome.HIT, batch: int = 2
    ) -> None:
        self.reply, self.batch = reply, batch
        self.limit = 1_000_000
        self.path: list[int] = []
        self.capacity = 0
        self.asked: list[Cell] = []
        self.tokens = 0
        self.fail_reading_beyond = 1_000_000
        self.regimes: Callable[[int], str] = lambda _: "one"

    def fits(self, length: int) -> str | None:
        return f"the model has {self.limit} positions" if length > self.limit else None

    def regime(self, length: int) -> str:
        return self.regimes(length)

    def start(self, capacity: int) -> None:
        self.path, self.capacity = [], capacity

    def read(self, ids: Sequence[int]) -> None:
        if len(self.path) + len(ids) > self.fail_reading_beyond:
            raise MemoryError("no room")
        self.path.extend(ids)
        self.tokens += len(ids)

    def crop(self, tokens: int) -> None:
        assert tokens <= len(self.path)
        del self.path[len(self.path) - tokens :]

    def together(self, leaves: Sequence[Leaf]) -> int:
        return min(self.batch, len(leaves))

    def ask(self, leaves: Sequence[Leaf]) -> list[Answer]:
        for leaf in leaves:
            assert (*self.path, *leaf.ids) == leaf.prompt.token_ids
            assert leaf.prompt.length <= self.capacity
        answers = [Answer(self.reply(leaf.prompt), -0.1, "said", len(leaf.ids)) for leaf in leaves]
        self.asked.extend(leaf.prompt.cell for leaf in leaves)
        self.tokens += sum(len(leaf.ids) for leaf in leaves)
        return answers


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path, RunFacts(model="m")) as opened:
        yield opened


def run_shared(
    plan: Plan,
    make: Callable[[Cell], Prompt],
    subject: Fake,
    store: Store,
    hashed: Callable[[Prompt], str],
    on_event: Callable[[Event], None],
    deadline: float | None = None,
    *,
    sharing: Sharing,
) -> RunResult:
    asking = Asking(store, hashed, on_event, deadline)
    return ask(plan, Prompts(make), Shared(subject), asking, sharing)


def go(
    store: Store,
    subject: Fake,
    plan: Plan = PLAN,
    on_event: Callable[[Event], None] = lambda _: None,
    deadline: float | None = None,
) -> RunResult:
    return run_shared(
        plan, make_prompt, subject, store, hash_of, on_event, deadline, sharing=Sharing.BRANCHES
    )


def table(store: Store) -> list[Row]:
    """Kept rows without what depends on where a run was cut off."""
    return [
        replace(row, tokens_read=0, answer=replace(row.answer, seconds=0.0)) for row in store.rows()
    ]


def test_every_cell_is_asked_once_and_shared_text_is_read_once_a_trial(store: Store) -> None:
    subject = Fake()
    assert go(store, subject) == RunResult(len(PLAN.cells), 0, len(PLAN.cells), False)
    assert sorted(subject.asked) == sorted(PLAN.cells)
    # The document once a trial, and seven tokens a question.
    assert subject.tokens == 3 * (300 - 8) + 7 * len(PLAN.cells)
    assert sum(row.tokens_read for row in store.rows()) == subject.tokens
    assert {row.sharing for row in store.rows()} == {Sharing.BRANCHES}
    assert go(store, subject) == RunResult(len(PLAN.cells), 0, 0, False)
    assert len(subject.asked) == len(PLAN.cells)


def test_cells_that_cannot_be_laid_out_are_left_out_also_of_the_first_trial(store: Store) -> None:
    def never(cell: Cell) -> Prompt:
        if (cell.trial == 0 and cell.length == 300) or cell.depth == 0.5:
            raise LengthError("no text comes out")
        return make_prompt(cell)

    subject = Fake()
    events: list[Event] = []
    result = run_shared(
        PLAN, never, subject, store, hash_of, events.append, sharing=Sharing.BRANCHES
    )
    left = {c for c in PLAN.cells if (c.trial == 0 and c.length == 300) or c.depth == 0.5}
    assert set(result.left_out) == left
    assert set(subject.asked) == set(PLAN.cells) - left
    assert (result.done, result.remaining) == (len(PLAN.cells) - len(left), 0)
    assert events[-1].done == events[-1].total == result.done


def test_a_plan_of_which_nothing_can_be_laid_out_asks_nothing(store: Store) -> None:
    def never(_: Cell) -> Prompt:
        raise LengthError("no text comes out")

    result = run_shared(
        PLAN, never, Fake(), store, hash_of, lambda _: None, sharing=Sharing.BRANCHES
    )
    assert (result.done, result.remaining, len(result.left_out)) == (0, 0, len(PLAN.cells))


def test_nothing_is_read_for_what_is_answered(store: Store) -> None:
    go(store, Fake(), make_plan([128, 300], [0.0, 0.5, 1.0], 3, control_trials=0))
    subject = Fake()
    go(store, subject, make_plan([64, 128, 300], [0.0, 0.5, 1.0], 3, control_trials=0))
    assert {cell.length for cell in subject.asked} == {64}
    assert subject.tokens == 3 * (64 - 8) + 9 * 7


class Killed(BaseException):
    """Ends a process in the middle of anything."""


@pytest.mark.parametrize("seed", range(20))
def test_a_run_cut_off_anywhere_ends_with_the_same_table(seed: int, tmp_path: Path) -> None:
    with Store.open(tmp_path / "whole", RunFacts(model="m")) as store:
        go(store, Fake())
        wanted = table(store)
    random = Random(seed)
    for _ in range(60):
        left = random.randrange(1, 8)

        class Cut(Fake):
            def ask(self, leaves: Sequence[Leaf], left: int = left) -> list[Answer]:
                if len(self.asked) >= left:
                    raise random.choice([Killed, KeyboardInterrupt])
                return super().ask(leaves)

        with Store.open(tmp_path / "cut", RunFacts(model="m")) as store:
            try:
                result = go(store, Cut())
            except Killed:
                continue
            if not result.interrupted:
                break
    with Store.open(tmp_path / "cut", RunFacts(model="m")) as store:
        assert go(store, Fake()).remaining == 0
        assert table(store) == wanted


def test_an_interrupt_keeps_what_was_answered_and_says_so(store: Store) -> None:
    def stop(event: Event) -> None:
        if event.done == 5:
            raise KeyboardInterrupt

    assert go(store, Fake(), on_event=stop) == RunResult(5, len(PLAN.cells) - 5, 5, True)
    assert len(store.rows()) == 5


def test_a_prompt_that_cannot_fit_is_an_overflow_and_its_text_is_not_read(store: Store) -> None:
    subject = Fake()
    subject.limit = 200
    go(store, subject)
    by_length = {row.cell.length: row.answer.outcome for row in store.rows()}
    assert by_length[300] is Outcome.OVERFLOW
    assert by_length[128] is Outcome.HIT
    assert subject.tokens <= 3 * (128 - 8) + 7 * len(PLAN.cells)


def test_a_text_that_memory_cannot_hold_overflows_all_below_it_and_the_rest_goes_on(
    store: Store,
) -> None:
    subject = Fake()
    subject.fail_reading_beyond = 200
    go(store, subject)
    outcomes = {row.cell.length: row.answer.outcome for row in store.rows()}
    assert outcomes[300] is Outcome.OVERFLOW
    assert outcomes[64] is outcomes[128] is Outcome.HIT
    assert not subject.path


def test_a_batch_that_breaks_is_asked_one_by_one(store: Store) -> None:
    class Brittle(Fake):
        def ask(self, leaves: Sequence[Leaf]) -> list[Answer]:
            if len(leaves) > 1:
                raise ValueError("several are too many")
            return super().ask(leaves)

    subject = Brittle(batch=5)
    assert go(store, subject).remaining == 0
    assert {row.answer.outcome for row in store.rows()} == {Outcome.HIT}


def test_errors_in_a_row_stop_the_run_and_are_asked_again(store: Store) -> None:
    class Broken(Fake):
        def ask(self, leaves: Sequence[Leaf]) -> list[Answer]:
            raise ValueError(f"broken for good: {len(leaves)}")

    with pytest.raises(RopewalkError, match="3 prompts in a row ended in an error"):
        go(store, Broken())
    assert go(store, Fake()).remaining == 0
    assert {row.answer.outcome for row in store.rows()} == {Outcome.HIT}


def test_an_error_of_the_store_is_not_an_answer(store: Store) -> None:
    class Full(Fake):
        def ask(self, leaves: Sequence[Leaf]) -> list[Answer]:
            raise StoreError(f"the disk is full: {len(leaves)}")

    with pytest.raises(StoreError):
        go(store, Full())
    assert store.rows() == []


def test_prompts_of_different_regimes_share_nothing(store: Store) -> None:
    subject = Fake()
    subject.regimes = lambda length: "short" if length <= 64 else "long"
    go(store, subject)
    documents = 3 * (64 - 8) + 3 * (300 - 8)
    assert subject.tokens == documents + 7 * len(PLAN.cells)


def test_a_deadline_ends_before_what_would_not_be_through(store: Store) -> None:
    assert go(store, Fake(), deadline=time.monotonic() - 1).out_of_time
    assert store.rows() == []
    result = go(store, Fake(), deadline=time.monotonic() + 1000)
    assert result.out_of_time or not result.remaining


def test_a_tree_as_deep_as_there_are_prompts_is_walked(store: Store) -> None:
    plan = make_plan(range(30, 30 + 1500), [0.5], 1, control_trials=0)

    def chain(cell: Cell) -> Prompt:
        ids = tuple(range(20 * (cell.length - 29) + 1))
        return Prompt(cell, ids, (2,), 0, 0.5, "key", "value", (), f"{cell}", 1)

    result = run_shared(plan, chain, Fake(), store, hash_of, lambda _: None, sharing=Sharing.PREFIX)
    assert result.remaining == 0


def test_expected_work_is_what_the_walk_reads(store: Store) -> None:
    cells = [cell for cell in PLAN.cells if cell.trial == 0]
    works = expected_work([make_prompt(cell) for cell in cells], Fake())
    seen: dict[Cell, int] = {}
    go(
        store,
        Fake(batch=1),
        on_event=lambda e: seen.update({e.cell: e.row.tokens_read if e.row else 0}),
    )
    assert {kind: tokens for kind, (_, tokens) in works.items()} == {
        kind_of(cell): seen[cell] for cell in cells
    }
    assert all(
        start + tokens == make_prompt(cell).length - 1
        for cell in cells
        for start, tokens in [works[kind_of(cell)]]
    )
