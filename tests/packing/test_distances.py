"""f(i) against a count of pairs, and against published shares."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import UsageError
from ropewalk.packing.distances import distances


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_every_pair_of_tokens_is_counted_at_its_distance(lengths: list[int]) -> None:
    counted: Counter[int] = Counter()
    for length in lengths:
        for later in range(length):
            for earlier in range(later + 1):
                counted[later - earlier] += 1
    seen = distances(Counter(lengths))
    assert [seen.at(i) for i in range(45)] == [counted[i] for i in range(45)]


def test_full_windows_train_half_their_distances_with_three_quarters_of_the_pairs() -> None:
    # arXiv 2410.18745: up to L/2 lie 75.0 % of the pairs, from 3/4 L on only 6.3 %.
    seen = distances({2048: 3})
    assert seen.share(1024) == pytest.approx(0.750, abs=5e-4)
    assert 1 - seen.share(1535) == pytest.approx(0.063, abs=5e-4)


def test_impossible_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="-1 sequences of 4 tokens"):
        distances({4: -1})
    with pytest.raises(UsageError, match="0 tokens"):
        distances({0: 1})
    assert distances({}).at(0) == 0
