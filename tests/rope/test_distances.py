"""How often distances are seen, against the definition written out and the published shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import LengthError
from ropewalk.rope.distances import Packing, distance_frequency

histograms = st.dictionaries(st.integers(1, 60), st.integers(0, 5), max_size=6)


def slow(sequences: list[int], row: int) -> tuple[int, ...]:
    """f(i) = sum over sequences of max(|s| - i, 0)."""
    return tuple(sum(max(s - i, 0) for s in sequences) for i in range(row))


def pieces(total: int, row: int) -> list[int]:
    return [row] * (total // row) + ([total % row] if total % row else [])


@given(histograms, st.integers(1, 40))
def test_isolated_documents_give_the_papers_sum(documents: dict[int, int], row: int) -> None:
    cut = [p for s, count in documents.items() for _ in range(count) for p in pieces(s, row)]
    assert distance_frequency(documents, row, "isolated").counts == slow(cut, row)


@given(histograms, st.integers(1, 40))
def test_joined_documents_are_one_stream(documents: dict[int, int], row: int) -> None:
    total = sum(s * count for s, count in documents.items())
    assert distance_frequency(documents, row, "joined").counts == slow(pieces(total, row), row)


def test_full_rows_hold_the_published_shares() -> None:
    # 2410.18745: rows of 2048 tokens hold three quarters of their pairs within half a row.
    found = distance_frequency({2048: 7}, 2048, "isolated")
    assert round(100 * found.share(0, 1024), 1) == 75.0
    assert round(100 * found.share(1536), 1) == 6.3


def test_packing_short_documents_apart_shows_no_far_distance() -> None:
    documents = {64: 100}
    assert distance_frequency(documents, 256, "isolated").furthest(1) == 63
    assert distance_frequency(documents, 256, "joined").furthest(1) == 255
    assert distance_frequency(documents, 256, "isolated").furthest(10**9) is None


def test_nothing_seen_has_no_shares() -> None:
    assert distance_frequency({}, 8, "joined").share(0) == 0.0


@pytest.mark.parametrize(
    ("documents", "row", "packing", "message"),
    [
        ({4: 1}, 0, "joined", "row is 0 tokens"),
        ({0: 1}, 8, "joined", "1 documents of 0 tokens"),
        ({4: -1}, 8, "isolated", "-1 documents of 4 tokens"),
        ({4: 1}, 8, "mixed", "'mixed'; it is 'isolated' or 'joined'"),
    ],
)
def test_impossible_plans_are_refused(
    documents: dict[int, int], row: int, packing: Packing, message: str
) -> None:
    with pytest.raises(LengthError, match=message):
        distance_frequency(documents, row, packing)
