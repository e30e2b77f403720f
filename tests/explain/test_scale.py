"""Scale: the shares that follow from lengths 1 or sqrt(d) beside sqrt(d / 2)."""

from __future__ import annotations

import math

import pytest

from ropewalk.explain.scale import ScaleRow, explain_scale

WIDTHS = (64, 512, 4096)


@pytest.fixture(scope="module")
def rows() -> tuple[ScaleRow, ...]:
    return explain_scale(widths=WIDTHS)


def test_the_factor_of_512_is_22_6(rows: tuple[ScaleRow, ...]) -> None:
    assert [round(row.factor, 1) for row in rows] == [8.0, 22.6, 64.0]


def test_the_token_has_its_share_of_the_length(rows: tuple[ScaleRow, ...]) -> None:
    for row in rows:
        # Squared lengths: 1 or d for the token, d / 2 for position.
        sampling = 3 * math.sqrt(2 / (256 * row.d_model))
        assert row.plain.identity == pytest.approx(1 / (1 + row.d_model / 2), rel=sampling)
        assert row.scaled.identity == pytest.approx(2 / 3, rel=sampling)


def test_without_the_scale_different_tokens_at_one_position_are_nearly_one_vector(
    rows: tuple[ScaleRow, ...],
) -> None:
    for row in rows:
        half = row.d_model / 2
        assert row.plain.other_token == pytest.approx(half / (1 + half), abs=0.01)
        assert row.plain.other_token > row.plain.other_position


def test_with_the_scale_a_token_is_nearer_to_itself_than_to_its_neighbour_in_place(
    rows: tuple[ScaleRow, ...],
) -> None:
    for row in rows:
        # Rows are independent, so only position is shared: (d/2) / (d + d/2).
        assert row.scaled.other_token == pytest.approx(1 / 3, abs=3 / math.sqrt(row.d_model))
        # The token is shared, and position at least not opposed.
        assert row.scaled.other_position > 2 / 3
        assert row.scaled.other_position > row.scaled.other_token


def test_the_same_seed_gives_the_same_numbers() -> None:
    assert explain_scale(3, (64,)) == explain_scale(3, (64,)) != explain_scale(4, (64,))
