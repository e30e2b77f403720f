"""Tests of paired answers against scipy's and against published examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ropewalk.errors import UsageError
from ropewalk.proof.statistics.paired import (
    fewest_units,
    holm,
    least_p,
    mcnemar,
    mean_difference,
    sign_flip,
    student_point,
)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_scipys_exact_binomial_test(first: int, second: int) -> None:
    if first + second:
        expected = stats.binomtest(first, first + second, 0.5).pvalue
        assert mcnemar(first, second) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("first", "second"), [(700, 600), (5000, 5100), (2000, 1)])
def test_mcnemar_takes_more_pairs_than_a_float_can_count(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second, 0.5).pvalue
    assert mcnemar(first, second) == pytest.approx(expected, rel=1e-6, abs=1e-300)


def test_without_differing_pairs_there_is_no_difference() -> None:
    assert mcnemar(0, 0) == 1.0
    assert sign_flip([]) == 1.0
    assert sign_flip([0.0] * 20) == 1.0


def test_negative_counts_are_refused() -> None:
    with pytest.raises(UsageError, match="-1 pairs"):
        mcnemar(3, -1)


@pytest.mark.parametrize("count", [3, 8, 12])
def test_all_flips_are_scipys_exact_permutation_test(count: int) -> None:
    values = np.random.default_rng(count).normal(0.4, 1.0, count)
    theirs = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert sign_flip(list(values)) == pytest.approx(theirs, abs=1e-12)


def test_flips_of_outcomes_are_mcnemars_test() -> None:
    assert sign_flip([1.0] * 9 + [-1.0] * 2 + [0.0]) == pytest.approx(mcnemar(9, 2))


def test_drawn_flips_come_near_to_students_test_and_are_the_same_every_time() -> None:
    values = list(np.random.default_rng(5).normal(0.25, 1.0, 60))
    found = sign_flip(values, seed=3)
    assert found == sign_flip(values, seed=3)
    assert found == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, abs=0.02)


def test_drawn_flips_reject_no_more_often_than_they_say() -> None:
    random = np.random.default_rng(11)
    rejected = sum(sign_flip(list(random.normal(0, 1, 20)), seed=i) < 0.05 for i in range(300))
    assert rejected / 300 <= 0.05 + 2.5 * (0.05 * 0.95 / 300) ** 0.5


@pytest.mark.parametrize("count", [2, 3, 7, 60, 500])
def test_the_interval_of_a_mean_is_students(count: int) -> None:
    values = list(np.random.default_rng(count).normal(-0.3, 2.0, count))
    found = mean_difference(values)
    theirs = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(theirs.low, rel=1e-5)
    assert found.high == pytest.approx(theirs.high, rel=1e-5)


@pytest.mark.parametrize("freedom", [1, 2, 5, 30, 1000])
def test_points_of_students_t_are_scipys(freedom: int) -> None:
    assert student_point(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-5)


def test_one_pair_has_a_mean_and_no_interval() -> None:
    found = mean_difference([0.5])
    assert (found.value, found.low, found.high) == (0.5, None, None)
    with pytest.raises(UsageError, match="no pair"):
        mean_difference([])


def test_holms_correction_by_hand() -> None:
    # 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 raised to the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([]) == ()
    assert holm([0.6, 0.7]) == (1.0, 1.0)


@pytest.mark.parametrize("units", range(1, 12))
def test_no_differences_give_a_smaller_p_than_is_said(units: int) -> None:
    assert sign_flip([1.0] * units) == pytest.approx(least_p(units))
    assert mcnemar(units, 0) == pytest.approx(least_p(units))


def test_as_many_units_as_are_said_to_be_enough_are_and_one_fewer_is_not() -> None:
    for tests in range(1, 60):
        enough = fewest_units(tests, 0.05)
        assert holm([mcnemar(enough, 0)] * tests)[0] < 0.05
        assert holm([mcnemar(enough - 1, 0)] * tests)[0] >= 0.05
