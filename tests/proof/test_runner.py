import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ropewalk.errors import LengthError, RopewalkError, ScheduleMismatchError, StoreError
from ropewalk.proof.ask import Event, RunResult, run
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Prompt, Row
from ropewalk.proof.plan import Plan, make_plan
from ropewalk.proof.store import Store

PLAN = make_plan([64, 128], [0.0, 0.5], trials=3, control_trials=1)


def make_prompt(cell: Cell) -> Prompt:
    length = cell.length or 10
    return Prompt(
        cell, (1,) * (length - 1), (2,), 0, cell.depth, "key", "value", (), f"{cell}" * 50
    )


def hash_of(prompt: Prompt) -> str:
    return prompt.text


class Fake:
    """Answers by a function, at a pace of one second a token, and remembers what it was asked."""

    def __init__(self, reply: Callable[[Prompt], Outcome] = lambda _: Outcome.HIT) -> None:
        self.reply = reply
        self.limit = 1_000_000
        self.asked: list[Cell] = []

    def answer(self, prompt: Prompt) -> Answer:
        self.asked.append(prompt.cell)
        return Answer(self.reply(prompt), -0.1, "said", float(prompt.length))

    def fits(self, length: int) -> str | None:
        return f"the model has {self.limit} positions" if length > self.limit else None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path, {"model": "m"}) as opened:
        yield opened


def go(
    store: Store,
    subject: Fake,
    plan: Plan = PLAN,
    on_event: Callable[[Event], None] = lambda _: None,
) -> RunResult:
    return run(plan, make_prompt, subject, store, hash_of, on_event)


def test_every_cell_is_asked_once_in_the_order_of_the_plan(store: Store) -> None:
    subject = Fake()
    result = go(store, subject)
    assert subject.asked == list(PLAN.cells)
    assert result == RunResult(done=16, remaining=0, asked=16, interrupted=False)
    assert {row.cell for row in store.rows()} == set(PLAN.cells)
    assert go(store, subject) == RunResult(done=16, remaining=0, asked=0, interrupted=False)
    assert len(subject.asked) == 16


def test_a_grown_plan_asks_only_what_is_new(store: Store) -> None:
    go(store, Fake())
    subject = Fake()
    larger = make_plan([64, 128, 256], [0.0, 0.5], trials=3)
    go(store, subject, larger)
    assert set(subject.asked) == set(larger.cells) - set(PLAN.cells)
    assert all(cell.length == 256 for cell in subject.asked)


def test_two_cells_with_the_same_tokens_both_get_an_answer(store: Store) -> None:
    run(PLAN, make_prompt, Fake(), store, lambda _: "the same", lambda _: None)
    assert {row.cell for row in store.rows()} == set(PLAN.cells)


def test_ctrl_c_keeps_what_was_answered_and_the_next_run_goes_on(store: Store) -> None:
    def reply(prompt: Prompt) -> Outcome:
        if prompt.cell == PLAN.cells[5]:
            raise KeyboardInterrupt
        return Outcome.HIT

    assert go(store, Fake(reply)) == RunResult(done=5, remaining=11, asked=5, interrupted=True)
    subject = Fake()
    assert go(store, subject) == RunResult(done=16, remaining=0, asked=11, interrupted=False)
    assert subject.asked == list(PLAN.cells[5:])


def test_ctrl_c_right_after_an_answer_was_kept_counts_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Store.add

    def interrupted(self: Store, row: Row, text: str) -> None:
        add(self, row, text)
        if row.cell == PLAN.cells[5]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", interrupted)
        ended = go(store, Fake())
    assert (ended.done, ended.remaining, ended.interrupted) == (len(store.rows()), 10, True)
    subject = Fake()
    assert go(store, subject).remaining == 0
    assert subject.asked == list(PLAN.cells[6:])


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("no"),
        OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_a_prompt_that_memory_cannot_take_is_an_overflow(store: Store, error: Exception) -> None:
    def reply(prompt: Prompt) -> Outcome:
        if prompt.length == 128:
            raise error
        return Outcome.HIT

    result = go(store, Fake(reply))
    assert (result.done, result.remaining) == (16, 0)
    overflown = [row for row in store.rows() if row.answer.outcome is Outcome.OVERFLOW]
    assert {row.cell.length for row in overflown} == {128}
    assert overflown[0].answer.printed == f"{type(error).__name__}: {error}"


def test_torchs_own_out_of_memory_is_an_overflow(store: Store) -> None:
    torch = pytest.importorskip("torch")

    def reply(_: Prompt) -> Outcome:
        torch.empty(2**58, dtype=torch.uint8)
        return Outcome.HIT

    go(store, Fake(reply), make_plan([64], [0.5], 1, 0))
    assert [row.answer.outcome for row in store.rows()] == [Outcome.OVERFLOW]


def test_a_length_the_model_cannot_take_is_not_asked(store: Store) -> None:
    subject = Fake()
    subject.limit = 100
    go(store, subject)
    assert all(cell.length <= 100 for cell in subject.asked)
    long = [row for row in store.rows() if row.cell.length == 128]
    assert {row.answer.outcome for row in long} == {Outcome.OVERFLOW}
    assert long[0].answer.printed == "the model has 100 positions"


def test_one_error_costs_one_answer_and_is_asked_again(store: Store) -> None:
    def reply(prompt: Prompt) -> Outcome:
        if prompt.cell == PLAN.cells[3]:
            raise ValueError("odd")
        return Outcome.HIT

    assert go(store, Fake(reply)) == RunResult(done=15, remaining=1, asked=16, interrupted=False)
    failed = [row for row in store.rows() if row.answer.outcome is Outcome.ERROR]
    assert [row.answer.printed for row in failed] == ["ValueError: odd"]
    subject = Fake()
    go(store, subject)
    assert subject.asked == [PLAN.cells[3]]
    assert len(store.rows()) == 16


def test_three_errors_in_a_row_stop_the_run_with_the_last(store: Store) -> None:
    def reply(prompt: Prompt) -> Outcome:
        if prompt.cell.trial:
            raise OSError(f"gone at {prompt.cell.length}")
        return Outcome.HIT

    subject = Fake(reply)
    with pytest.raises(RopewalkError, match=r"3 prompts in a row .* 'OSError: gone at 128'"):
        go(store, subject)
    assert len(subject.asked) == 8 + 3
    assert go(store, Fake()).done == 16


def test_errors_about_the_run_are_not_taken_for_answers(store: Store) -> None:
    def reply(_: Prompt) -> Outcome:
        raise ScheduleMismatchError("pair 3 differs")

    with pytest.raises(ScheduleMismatchError):
        go(store, Fake(reply))
    assert store.rows() == []


def test_a_cell_that_cannot_be_laid_out_is_left_out_and_named(store: Store) -> None:
    def never(cell: Cell) -> Prompt:
        if cell.length == 128 and cell.trial == 1:
            raise LengthError("no text comes out")
        return make_prompt(cell)

    subject = Fake()
    events: list[Event] = []
    result = run(PLAN, never, subject, store, hash_of, events.append)
    left = [cell for cell in PLAN.cells if cell.length == 128 and cell.trial == 1]
    assert result == RunResult(
        done=14,
        remaining=0,
        asked=14,
        interrupted=False,
        left_out=dict.fromkeys(left, "no text comes out"),
    )
    assert subject.asked == [cell for cell in PLAN.cells if cell not in left]
    assert (events[-1].done, events[-1].total) == (14, 14)
    assert events[-1].tokens_done == events[-1].tokens_total == sum(c.length for c in subject.asked)
    assert events[-1].eta_seconds == 0


def test_an_answer_that_cannot_be_kept_stops_the_run(store: Store) -> None:
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    subject = Fake()
    with pytest.raises(StoreError, match="the same command goes on"):
        go(store, subject)
    kept = len(store.rows())
    assert len(subject.asked) == kept + 1
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert go(store, subject).done == 16
    assert len(subject.asked) == 16 + 1


def test_events_count_cells_and_tokens_and_expect_the_rest_by_what_was_seen(store: Store) -> None:
    plan = make_plan([100, 300], [0.5], trials=2, control_trials=0)
    events: list[Event] = []
    go(store, Fake(), plan, events.append)
    assert [(e.done, e.total) for e in events] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [e.tokens_done for e in events] == [100, 400, 500, 800]
    assert {e.tokens_total for e in events} == {800}
    # From the second event on both lengths were seen, at a second a token.
    assert [e.eta_seconds for e in events[1:]] == pytest.approx([400, 300, 0])
    again: list[Event] = []
    go(store, Fake(), plan, again.append)
    assert [(e.done, e.row, e.eta_seconds) for e in again] == [(4, None, 0)] * 4


def test_controls_are_kept_as_controls(store: Store) -> None:
    go(store, Fake())
    kinds = [row.cell.control for row in store.rows()]
    assert kinds.count(Control.NEEDLE_ONLY) == 1
    assert kinds.count(Control.NO_NEEDLE) == 1
    assert kinds.count(Control.END) == 2


def test_no_prompt_is_begun_that_would_end_behind_the_deadline(store: Store) -> None:
    plan = make_plan([100, 300], [0.0], trials=3, control_trials=0)
    subject = Fake()
    # At a second a token the first two prompts teach the pace; 300 more seconds are not left.
    result = run(plan, make_prompt, subject, store, hash_of, lambda _: None, time.monotonic() + 120)
    assert subject.asked == [Cell(100, 0.0, 0)]
    assert result == RunResult(done=1, remaining=5, asked=1, interrupted=False, out_of_time=True)
    again = go(store, subject, plan)
    assert again == RunResult(done=6, remaining=0, asked=5, interrupted=False)
