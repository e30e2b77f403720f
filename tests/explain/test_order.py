"""Order: what theory says of attention with and without position, and of the raw index."""

from __future__ import annotations

import math

import pytest

from ropewalk.explain.order import OrderDemo, explain_order


@pytest.fixture(scope="module")
def order() -> OrderDemo:
    return explain_order()


def test_without_position_outputs_are_shuffled_as_inputs_are_and_bites_cannot_tell(
    order: OrderDemo,
) -> None:
    none = order.rows[0]
    assert none.encoding == "none"
    # A few roundings of fp64.
    assert none.unpermuted < 1e-14
    assert none.at_bites < 1e-14


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_position_every_seed_tells_the_two_sentences_apart(seed: int) -> None:
    for row in explain_order(seed).rows[1:]:
        assert row.unpermuted >= row.at_bites > 0.01


def test_the_index_decides_every_dot_product_at_position_4000(order: OrderDemo) -> None:
    decides = order.raw_index.decides
    assert decides.index_product == 4_000**2
    # Signs cannot make more than their count, and one position further back costs 4,000.
    assert decides.content_largest <= decides.components == 64 < decides.index_product / 1e5
    assert decides.latest_chosen == 1.0
    assert decides.latest_without < 0.05


def test_position_4000_lies_far_outside_of_the_indices_trained_on(order: OrderDemo) -> None:
    index, sinusoidal = order.raw_index.unseen
    assert index.largest == pytest.approx(4_000 / 1_023)
    # The spread of 0 .. n-1 is sqrt((n^2 - 1) / 12).
    assert index.distance == pytest.approx((4_000 - 1_023) / math.sqrt((1_024**2 - 1) / 12))
    assert sinusoidal.largest <= 1.0
    # Sines of another time: no further off than two of training are, which are 1.41 apart.
    assert sinusoidal.distance < 2.0


def test_the_same_gap_scores_apart_under_the_index_and_alike_under_rotation(
    order: OrderDemo,
) -> None:
    index, rotary = order.raw_index.relative
    assert (index.near, index.far) == (3.0, 503.0 * 501.0)
    assert rotary.near == pytest.approx(-0.416, abs=5e-4)
    assert rotary.far == pytest.approx(math.cos(2.0), abs=1e-12)
    assert rotary.residual < 1e-9 < 0.01 < index.residual
