"""Position ids that are none are refused with the place where they stand."""

from __future__ import annotations

import pytest
import torch

from ropewalk.errors import PositionError, TensorError
from ropewalk.positions.checks import check_fit, check_positions


@pytest.mark.parametrize(
    ("ids", "place"),
    [
        (torch.tensor([0, 1, -7]), "holds -7 at column 2"),
        (torch.tensor([[0, 1], [2, -1]]), "holds -1 at row 1, column 1"),
        (torch.tensor([[[0, 1]], [[0, -3]]]), "holds -3 at axis 1, row 0, column 1"),
    ],
)
def test_a_negative_position_is_refused_with_its_place(ids: torch.Tensor, place: str) -> None:
    with pytest.raises(PositionError, match=place):
        check_positions(ids)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool]
)
def test_positions_that_are_no_integers_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TensorError, match=str(dtype)):
        check_positions(torch.zeros(1, 3, dtype=dtype))


def test_half_precision_would_merge_neighbouring_positions() -> None:
    # The reason why floating positions are refused: the values below are what the formats hold.
    assert torch.tensor([257, 259, 1001]).bfloat16().tolist() == [256, 260, 1000]
    assert torch.tensor([4097]).half().tolist() == [4096]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_every_integer_dtype_is_taken(dtype: torch.dtype) -> None:
    check_positions(torch.arange(3, dtype=dtype))


def test_a_position_past_the_end_says_the_end_and_the_reason() -> None:
    with pytest.raises(PositionError, match=r"holds 4 at row 0, column 1; .* 0 to 3: no row"):
        check_positions(torch.tensor([[3, 4]]), high=3, why="no row")


@pytest.mark.parametrize("shape", [(), (1, 1, 1, 1)])
def test_positions_of_no_known_rank_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(PositionError, match="shape"):
        check_positions(torch.zeros(shape, dtype=torch.int64))


def test_a_tensor_without_values_passes() -> None:
    check_positions(torch.empty(2, 3, dtype=torch.int64, device="meta"), high=1)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (2, 5)])
def test_ids_for_one_row_or_every_row_fit(shape: tuple[int, ...]) -> None:
    check_fit(torch.zeros(shape, dtype=torch.int64), 2, 5, None, "position_ids")


@pytest.mark.parametrize("shape", [(4,), (1,), (3, 5), (2, 1), (3, 2, 5)])
def test_ids_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(PositionError, match="shape"):
        check_fit(torch.zeros(shape, dtype=torch.int64), 2, 5, None, "position_ids")


def test_an_encoding_of_three_axes_refuses_two() -> None:
    check_fit(torch.zeros(3, 2, 5, dtype=torch.int64), 2, 5, 3, "position_ids")
    with pytest.raises(PositionError, match="3 axes"):
        check_fit(torch.zeros(2, 2, 5, dtype=torch.int64), 2, 5, 3, "position_ids")
