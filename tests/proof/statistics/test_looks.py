"""Confidence sequences: against scipy's densities, and simulated under endless looking."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from ropewalk.proof.statistics.evidence import (
    CHANCE,
    Independent,
    Repeated,
    SharedDocuments,
    confidence_sequence,
    evidence_of,
)
from ropewalk.proof.statistics.intervals import wilson

ends = lru_cache(maxsize=None)(confidence_sequence)
one_look = lru_cache(maxsize=None)(wilson)


@pytest.mark.parametrize(("hits", "judged"), [(3, 10), (40, 50), (99, 100), (500, 1000)])
def test_at_both_ends_posterior_and_prior_density_differ_by_twenty(hits: int, judged: int) -> None:
    posterior = stats.beta(hits + 0.5, judged - hits + 0.5)
    for end in confidence_sequence(hits, judged):
        assert posterior.pdf(end) / stats.beta(0.5, 0.5).pdf(end) == pytest.approx(CHANCE, rel=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.85, 0.95])
def test_looking_after_every_answer_is_wrong_no_more_often_than_said(share: float) -> None:
    answers = np.cumsum(np.random.default_rng(1).random((300, 150)) < share, axis=1)
    left = 0
    for hits in answers:
        looks = (ends(int(n), i) for i, n in enumerate(hits, start=1))
        left += any(not low <= share <= high for low, high in looks)
    assert left / 300 <= CHANCE


def test_looking_as_often_at_wilsons_interval_is_wrong_much_more_often() -> None:
    answers = np.cumsum(np.random.default_rng(1).random((300, 150)) < 0.85, axis=1)
    left = 0
    for hits in answers:
        looks = (one_look(int(n), i) for i, n in enumerate(hits, start=1) if i >= 10)
        left += any(not share.low <= 0.85 <= share.high for share in looks)
    assert left / 300 > 3 * CHANCE


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.5])
def test_looking_after_every_document_is_wrong_no_more_often_than_said(correlation: float) -> None:
    share, answers = 0.85, 5
    random = np.random.default_rng(2)
    weight = (1 - correlation) / correlation if correlation else math.inf
    own = (
        random.beta(share * weight, (1 - share) * weight, (60, 16))
        if correlation
        else np.full((60, 16), share)
    )
    hits = random.binomial(answers, own)
    left = 0
    for run in hits:
        for seen in range(1, 17):
            found = Repeated(SharedDocuments()).share([(int(n), answers) for n in run[:seen]])
            if not found.low <= share <= found.high:
                left += 1
                break
    # The promise is on average over all correlations; at the largest of these it still holds.
    assert left / 60 <= CHANCE + 2 * math.sqrt(CHANCE * (1 - CHANCE) / 60)


def test_what_looking_costs_at_full_marks() -> None:
    def first(evidence: Repeated, answers: int) -> int:
        counts = [(answers, answers)]
        return next(n for n in range(1, 99) if evidence.share(counts * n).low >= 0.85)

    assert first(Repeated(Independent()), 1) == 33
    assert first(Repeated(SharedDocuments()), 5) == 22


def test_the_interval_of_many_looks_is_never_narrower_than_that_of_one() -> None:
    for hits, judged in ((0, 5), (5, 5), (40, 50), (44, 50)):
        counts = [(hits * 5 // judged, 5)] * (judged // 5)
        for kind in (Independent(), SharedDocuments()):
            once, many = kind.share(counts), Repeated(kind).share(counts)
            assert many.low <= once.low <= once.high <= many.high


def test_nothing_judged_could_be_anything() -> None:
    assert confidence_sequence(0, 0) == (0.0, 1.0)
    assert Repeated(Independent()).share([]).high == 1.0


def test_as_many_further_trials_as_said_are_enough_and_one_fewer_is_not() -> None:
    evidence = Repeated(Independent())
    more = evidence.further([(5, 5)] * 2, 1.0, 0.85, 5)
    assert evidence.share([(5, 5)] * (2 + more)).low >= 0.85
    assert evidence.share([(5, 5)] * (1 + more)).low < 0.85
    assert evidence.further([(4, 5)] * 2, 0.8, 0.85, 5) == 0


def test_looks_are_chosen_by_name() -> None:
    assert evidence_of("none", looks="many") == Repeated(Independent())
    assert evidence_of("branches", looks="many") == Repeated(SharedDocuments())
    assert evidence_of("prefix") == Independent()
