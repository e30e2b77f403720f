"""Intervals over documents: against scipy's beta-binomial, and by simulation."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from ropewalk.errors import UsageError
from ropewalk.proof.statistics import over_documents, wilson
from ropewalk.proof.statistics.intervals import _log_likelihood
from ropewalk.proof.summary import Share


def simulated(
    share: float, correlation: float, documents: int, answers: int, runs: int
) -> np.ndarray:
    """Hits of every document, (runs, documents), drawn from numpy's beta and binomial."""
    random = np.random.default_rng(7)
    if correlation:
        weight = (1 - correlation) / correlation
        own = random.beta(share * weight, (1 - share) * weight, (runs, documents))
    else:
        own = np.full((runs, documents), share)
    return random.binomial(answers, own)


@cache
def interval(hits: tuple[int, ...], answers: int) -> Share:
    return over_documents([(each, answers) for each in hits])


def coverage(share: float, correlation: float, documents: int, answers: int) -> float:
    drawn = np.sort(simulated(share, correlation, documents, answers, 400), axis=1)
    held = 0
    for hits in drawn:
        found = interval(tuple(map(int, hits)), answers)
        held += found.low <= share <= found.high
    return held / len(drawn)


@pytest.mark.parametrize("correlation", [0.0, 0.1, 0.3, 0.5])
@pytest.mark.parametrize(("documents", "answers"), [(5, 11), (10, 5), (20, 11)])
@pytest.mark.parametrize("share", [0.5, 0.85, 0.95])
def test_the_true_share_is_held_as_often_as_the_interval_says(
    share: float, correlation: float, documents: int, answers: int
) -> None:
    # 95 % less two and a half standard errors of 400 runs, for a true coverage of 0.945.
    assert coverage(share, correlation, documents, answers) >= 0.915


def test_wilson_over_the_same_answers_would_not_hold_it() -> None:
    drawn = simulated(0.85, 0.3, 10, 11, 400).sum(axis=1)
    held = np.mean([wilson(int(n), 110).low <= 0.85 <= wilson(int(n), 110).high for n in drawn])
    assert held < 0.75


@pytest.mark.parametrize(("hits", "judged"), [(0, 7), (3, 7), (7, 7), (1, 1), (11, 12)])
def test_the_likelihood_is_scipys_beta_binomial_but_for_the_binomial(
    hits: int, judged: int
) -> None:
    share = np.sin((np.arange(400) + 0.5) / 400 * math.pi / 2) ** 2
    column, correlation = 10, 10.5 / 40
    weight = (1 - correlation) / correlation
    theirs = stats.betabinom(judged, share * weight, (1 - share) * weight).logpmf(hits)
    ours = _log_likelihood(hits, judged)[:, column] + math.log(math.comb(judged, hits))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


def test_the_ends_are_quantiles_of_the_posterior_on_a_finer_grid_of_scipys() -> None:
    documents = [(5, 5)] * 7 + [(3, 5)] * 2 + [(1, 5)]
    found = over_documents(documents)
    share = ((np.arange(3000) + 0.5) / 3000)[:, None]
    correlation = ((np.arange(160) + 0.5) / 160)[None, :]
    weight = (1 - correlation) / correlation
    like = stats.betabinom(5, share * weight, (1 - share) * weight)
    density = like.pmf(5) ** 7 * like.pmf(3) ** 2 * like.pmf(1) * stats.beta(0.5, 0.5).pdf(share)
    below = np.cumsum(density.sum(axis=1)) / density.sum()
    low, high = np.interp([0.025, 0.975], below, share[:, 0] + 0.5 / 3000)
    assert found.low == pytest.approx(low, abs=2e-3)
    assert found.high == pytest.approx(high, abs=2e-3)


def test_documents_without_a_miss_are_no_certainty() -> None:
    # A bootstrap over these would say [1, 1].
    three = over_documents([(11, 11)] * 3)
    assert three.low == pytest.approx(0.63, abs=0.01)
    assert three.high == 1.0
    assert three.effective is not None
    assert 3 < three.effective < 10
    assert over_documents([(5, 5)] * 9).low < 0.85 < over_documents([(5, 5)] * 10).low


def test_documents_without_a_hit_are_the_mirror_of_those_without_a_miss() -> None:
    none, every = over_documents([(0, 5)] * 6), over_documents([(5, 5)] * 6)
    assert none.low == 0.0
    assert none.high == pytest.approx(1 - every.low, abs=1e-9)


def test_one_answer_a_document_is_wilsons_interval() -> None:
    found = over_documents([(1, 1)] * 9 + [(0, 1), (0, 0)])
    assert (found.low, found.high) == (wilson(9, 10).low, wilson(9, 10).high)
    assert (found.documents, found.effective) == (10, 10.0)


def test_answers_that_are_alike_count_less_than_answers_that_differ() -> None:
    mixed = over_documents([(4, 5)] * 10)
    alike = over_documents([(5, 5)] * 8 + [(0, 5)] * 2)
    assert (mixed.hits, mixed.judged) == (alike.hits, alike.judged) == (40, 50)
    assert alike.low < mixed.low <= wilson(40, 50).low
    assert (alike.effective or 0) < 15 < 35 < (mixed.effective or 0)


def test_without_correlation_it_comes_near_to_wilson() -> None:
    random = np.random.default_rng(3)
    found = over_documents([(int(hits), 11) for hits in random.binomial(11, 0.9, 40)])
    apart = wilson(found.hits, found.judged)
    assert apart.high - apart.low <= found.high - found.low <= 1.2 * (apart.high - apart.low)


def test_nothing_judged_could_be_anything() -> None:
    found = over_documents([(0, 0)] * 3)
    assert (found.value, found.low, found.high, found.documents) == (None, 0.0, 1.0, 0)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(UsageError, match="6 hits of 5"):
        over_documents([(6, 5)])
