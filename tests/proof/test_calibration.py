"""Which cells are asked both ways, and when a difference counts as real."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from ropewalk.proof.calibration import (
    FEWEST_CELLS,
    SHORT_CELLS,
    CalibrationPair,
    judge,
    plan_calibration,
)
from ropewalk.proof.cells import Answer, Calibrate, Cell, Control, Outcome
from ropewalk.proof.plan import make_plan

DEPTHS = tuple(step / 10 for step in range(11))
PLAN = make_plan((256, 512, 1024, 2048, 4096, 8192), DEPTHS, 3)


def pairs_of(
    differences: list[float], branch: str = "", alone: str = "", at: float = -1.0
) -> list[CalibrationPair]:
    """A pair a difference; outcomes by letters H and M, hits where none is named."""
    names = {"H": Outcome.HIT, "M": Outcome.MISS, "O": Outcome.OVERFLOW}
    return [
        CalibrationPair(
            Cell(512, DEPTHS[i % 11], i // 11),
            Answer(names[(branch or "H" * len(differences))[i]], at + each, "", 0.1),
            Answer(names[(alone or "H" * len(differences))[i]], at, "", 0.1),
        )
        for i, each in enumerate(differences)
    ]


def test_a_short_calibration_takes_the_longest_lengths_first_and_reads_what_it_may() -> None:
    longest = max(PLAN.lengths)
    cells = plan_calibration(PLAN, Calibrate.SHORT, 0, 8 * longest)
    assert set(cells) <= set(PLAN.cells)
    assert len(set(cells)) == len(cells)
    assert sum(cell.length for cell in cells) <= 8 * longest + longest
    by_length = Counter(cell.length for cell in cells)
    assert by_length[longest] >= 4
    # What the longest leaves goes to shorter ones, depth by depth.
    assert min(by_length) < longest
    depths = Counter(cell.depth for cell in cells if cell.length == longest)
    assert set(depths.values()) == {1}


def test_the_seed_draws_other_cells_and_the_same_seed_the_same() -> None:
    first = plan_calibration(PLAN, Calibrate.SHORT, 0, 100_000)
    assert first == plan_calibration(PLAN, Calibrate.SHORT, 0, 100_000)
    assert first != plan_calibration(PLAN, Calibrate.SHORT, 1, 100_000)


def test_full_takes_every_cell_and_off_none_and_neither_takes_controls() -> None:
    full = plan_calibration(PLAN, Calibrate.FULL, 0, 0)
    assert len(full) == 6 * 11 * 3
    assert all(cell.control is Control.NONE for cell in full)
    assert plan_calibration(PLAN, Calibrate.OFF, 0, 10**9) == ()


def test_there_are_a_few_pairs_however_little_is_to_be_read_and_never_more_than_sixty() -> None:
    assert len(plan_calibration(PLAN, Calibrate.SHORT, 0, 0)) == FEWEST_CELLS
    assert len(plan_calibration(PLAN, Calibrate.SHORT, 0, 10**9)) == SHORT_CELLS
    small = make_plan((512, 1024), (0.0, 1.0), 2)
    assert len(plan_calibration(small, Calibrate.SHORT, 0, 10**9)) == 8


def test_a_shift_of_the_log_probability_is_real() -> None:
    found = judge(pairs_of(list(np.random.default_rng(0).normal(-0.4, 0.5, 60))))
    assert found.real
    assert found.p_outcomes == 1.0
    assert "prompts of their own are asked instead" in found.sentence
    assert found.difference is not None
    assert found.difference.value == pytest.approx(-0.4, abs=0.15)


def test_noise_alone_is_called_real_in_one_run_of_twenty_at_most() -> None:
    random = np.random.default_rng(1)
    real = sum(judge(pairs_of(list(random.normal(0, 0.5, 60))), i).real for i in range(100))
    assert real <= 10


def test_a_certain_but_tiny_shift_is_not_real() -> None:
    found = judge(pairs_of([-0.01 + 1e-4 * (i % 7) for i in range(60)]))
    assert found.p_difference < 0.01
    assert not found.real


def test_outcomes_alone_can_be_a_real_difference() -> None:
    found = judge(pairs_of([0.0] * 60, branch="M" * 12 + "H" * 48))
    assert (found.both, found.only_branch, found.only_alone, found.neither) == (48, 0, 12, 0)
    # Two tests are made; Holm doubles the smaller p-value.
    assert found.p_outcomes == pytest.approx(2 * stats.binomtest(0, 12).pvalue)
    assert found.real


def test_pairs_that_cannot_be_judged_are_counted_and_left_out() -> None:
    found = judge(pairs_of([0.0] * 4, branch="HHHO", alone="HHMH"))
    assert (found.pairs, found.left_out, found.only_branch) == (3, 1, 1)


def test_a_value_thought_impossible_has_no_difference_and_is_counted() -> None:
    found = judge(pairs_of([0.0, -math.inf, 0.1]))
    assert (found.pairs, found.without_number) == (3, 1)
    assert found.difference is not None
    assert found.difference.count == 2


def test_no_pairs_say_nothing() -> None:
    found = judge([])
    assert not found.real
    assert "nothing is known" in found.sentence
