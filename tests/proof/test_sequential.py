"""Which cells get further trials, and how a whole run of them ends."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from ropewalk.errors import UsageError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row
from ropewalk.proof.progress import RunResult
from ropewalk.proof.settings import UntilCertain, go_on
from ropewalk.proof.statistics.evidence import evidence_of
from ropewalk.proof.statistics.tally import summarise
from ropewalk.proof.statistics.verdicts import AbsoluteThreshold
from ropewalk.proof.summary import RunSummary

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
LENGTHS = (512, 1024, 2048)


def a_row(cell: Cell, outcome: Outcome) -> Row:
    return Row(cell, cell.length, cell.depth, "k", "v", Answer(outcome, -1.0, "", 0.1), repr(cell))


def summed(rows: list[Row], bar: float = 0.85, sharing: str = "none") -> RunSummary:
    grown = {
        n: 1 + max((r.cell.trial for r in rows if r.cell.length == n), default=0) for n in LENGTHS
    }
    return summarise(
        rows,
        lengths=LENGTHS,
        depths=DEPTHS,
        trials=1,
        threshold=AbsoluteThreshold(bar),
        evidence=evidence_of(sharing, looks="many"),
        grown=grown,
    )


def played(
    rates: Mapping[int, float], most: int, seed: int = 0, sharing: str = "none"
) -> tuple[RunSummary, list[Row]]:
    """A run to its end: each answer is a hit with the rate of its length."""
    random = Random(seed)
    rows = [
        a_row(Cell(n, depth, 0), Outcome.HIT if random.random() < rates[n] else Outcome.MISS)
        for n in LENGTHS
        for depth in DEPTHS
    ]
    policy = UntilCertain(most)
    while cells := policy.round(summed(rows, sharing=sharing), rows):
        for cell in cells:
            hit = random.random() < rates[cell.length]
            rows.append(a_row(cell, Outcome.HIT if hit else Outcome.MISS))
    return summed(rows, sharing=sharing), rows


def trials_of(rows: list[Row]) -> dict[int, int]:
    return {n: sum(row.cell.length == n for row in rows) // len(DEPTHS) for n in LENGTHS}


def test_a_clear_length_stops_as_soon_as_it_is_clear() -> None:
    summary, rows = played({512: 1.0, 1024: 1.0, 2048: 0.0}, most=50)
    assert [column.verdict for column in summary.columns] == ["passes", "passes", "fails"]
    # 33 answers at full marks, five a trial; no answer right is clear at the first look but one.
    assert trials_of(rows)[512] == trials_of(rows)[1024] == 7
    assert trials_of(rows)[2048] <= 2
    assert summary.effective.certain == 1024
    assert "Not finished" not in summary.effective.sentence


def test_a_length_near_the_bar_gets_trials_up_to_the_cap_and_no_more() -> None:
    summary, rows = played({512: 1.0, 1024: 0.85, 2048: 1.0}, most=12)
    assert trials_of(rows) == {512: 7, 1024: 12, 2048: 7}
    assert summary.columns[1].verdict == "undecided"


def test_lengths_beyond_one_that_fails_get_nothing_more() -> None:
    summary, rows = played({512: 1.0, 1024: 0.0, 2048: 0.85}, most=30)
    assert trials_of(rows)[2048] <= 2
    assert summary.effective.possible == 512


def test_documents_are_asked_whole_and_until_there_are_enough() -> None:
    summary, rows = played({512: 1.0, 1024: 0.0, 2048: 0.0}, most=50, sharing="branches")
    # The other lengths say little of how alike answers are: some more than without them.
    assert 20 <= trials_of(rows)[512] <= 26
    assert summary.columns[0].pooled.documents == trials_of(rows)[512]


def test_a_model_below_the_bar_is_seldom_passed_however_often_it_is_looked_at() -> None:
    passed = 0
    for seed in range(20):
        summary, _ = played({512: 0.8, 1024: 0.0, 2048: 0.0}, most=10, seed=seed)
        passed += summary.columns[0].verdict == "passes"
    assert passed <= 1


def test_a_length_that_never_fits_is_not_asked_again() -> None:
    rows = [a_row(Cell(512, depth, 0), Outcome.OVERFLOW) for depth in DEPTHS]
    assert UntilCertain(5).round(summed(rows), rows) == ()


def test_every_task_of_a_length_gets_its_trial_and_controls_get_none() -> None:
    rows = [
        a_row(Cell(512, depth, 0, task=task), Outcome.HIT)
        for depth in DEPTHS
        for task in ("single", "count")
    ]
    rows.append(a_row(Cell(512, 0.0, 7, Control.NO_NEEDLE), Outcome.MISS))
    cells = UntilCertain(5).round(summed(rows), rows)
    assert {cell.task for cell in cells} == {"single", "count"}
    assert {cell.trial for cell in cells} == {1}
    assert len(cells) == 10


def test_a_cap_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="0 trials at most"):
        UntilCertain(0)


def test_a_round_that_was_cut_off_is_finished_first() -> None:
    rows = [a_row(Cell(512, depth, trial), Outcome.HIT) for trial in (0, 1) for depth in DEPTHS]
    cells = UntilCertain(9).round(summed(rows[:-2]), rows[:-2])
    assert cells == tuple(row.cell for row in rows[-2:])


def test_what_could_not_be_laid_out_is_not_asked_for_again_and_ends_nothing() -> None:
    rows = [a_row(Cell(n, depth, 0), Outcome.HIT) for n in LENGTHS for depth in DEPTHS]
    asked: list[Cell] = []

    def ask(cells: tuple[Cell, ...]) -> RunResult:
        asked.extend(cells)
        # A whole trial of one length, and one depth of all.
        gone = {c: "no text" for c in cells if c.depth == 0 or (c.length, c.trial) == (512, 1)}
        laid = [cell for cell in cells if cell not in gone]
        rows.extend(a_row(cell, Outcome.HIT) for cell in laid)
        return RunResult(len(laid), 0, len(laid), False, left_out=gone)

    def kept() -> tuple[RunSummary, list[Row]]:
        return summed(rows), rows

    ended = go_on(UntilCertain(12), RunResult(15, 0, 15, False), ask, kept)
    assert len(asked) == len(set(asked))
    assert set(ended.left_out) == set(asked) - {row.cell for row in rows}
    assert {column.verdict for column in summed(rows).columns} == {"passes"}


def test_rounds_are_asked_behind_a_run_until_it_is_settled_or_interrupted() -> None:
    first = [a_row(Cell(n, depth, 0), Outcome.HIT) for n in LENGTHS for depth in DEPTHS]
    rows = list(first)

    def ask(cells: tuple[Cell, ...], *, interrupt: bool = False) -> RunResult:
        rows.extend(a_row(cell, Outcome.HIT) for cell in cells)
        return RunResult(len(cells), 0, len(cells), interrupt)

    def kept() -> tuple[RunSummary, list[Row]]:
        return summed(rows), rows

    ended = go_on(UntilCertain(50), RunResult(15, 0, 15, False), ask, kept)
    # 33 answers at full marks: seven trials of five depths at each of three lengths.
    assert (ended.done, ended.asked, len(rows)) == (105, 105, 105)
    rows[:] = first
    ended = go_on(
        UntilCertain(50), RunResult(15, 0, 15, False), lambda c: ask(c, interrupt=True), kept
    )
    assert (ended.interrupted, ended.done) == (True, 30)
