"""Bounded, unique, relative: each encoding's answers are what its definition says."""

from __future__ import annotations

import pytest
import torch

from ropewalk.errors import PositionError
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.figures import measure, measure_vectors
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.xpos import XPos
from ropewalk.rope import spec

ROTARY = spec.RotarySpec(16, 16, 10_000.0)


@pytest.mark.parametrize(
    ("encoding", "bounded", "unique", "relative"),
    [
        (Sinusoidal(16), True, True, True),
        (Sinusoidal(16, "tensor2tensor"), True, True, True),
        (Rotary(ROTARY), True, True, True),
        (XPos(ROTARY), False, True, True),
        (Learned(300, 16), True, True, False),
        (NoPosition(), True, False, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PositionEncoding) else str(value),
)
def test_the_three_answers(
    encoding: PositionEncoding, bounded: bool, unique: bool, relative: bool
) -> None:
    figures = measure(encoding)
    assert (figures.bounded, figures.unique, figures.relative_linear) == (bounded, unique, relative)


def test_a_sinusoid_is_measured_past_a_million_and_never_leaves_one() -> None:
    figures = measure(Sinusoidal(16))
    assert figures.farthest > 1_000_000
    assert figures.largest == pytest.approx(1.0, abs=1e-9)


def test_a_learned_table_is_measured_to_its_last_row_and_not_beyond() -> None:
    assert measure(Learned(300, 8)).farthest == 299


def test_a_learned_table_with_two_equal_rows_is_not_unique() -> None:
    encoding = Learned(50, 8)
    with torch.no_grad():
        encoding.weight[7] = encoding.weight[30]
    figures = measure(encoding)
    assert not figures.unique
    assert figures.smallest_distance == 0.0


def test_the_raw_index_is_unique_and_neither_bounded_nor_relative() -> None:
    figures = measure_vectors(lambda ids: ids[:, None].double())
    assert (figures.bounded, figures.unique, figures.relative_linear) == (False, True, False)
    assert figures.smallest_distance == 1.0
    assert figures.largest == figures.farthest


def test_a_sine_of_a_whole_number_of_positions_repeats() -> None:
    def period_8(ids: torch.Tensor) -> torch.Tensor:
        angle = ids.double() * (2 * torch.pi / 8)
        return torch.stack((angle.sin(), angle.cos()), dim=-1)

    assert not measure_vectors(period_8).unique


def test_a_map_that_refuses_everything_has_no_figures() -> None:
    def none(ids: torch.Tensor) -> torch.Tensor:
        raise PositionError(f"no encoding for {ids.tolist()}")

    with pytest.raises(PositionError, match="refuses position 0"):
        measure_vectors(none)
