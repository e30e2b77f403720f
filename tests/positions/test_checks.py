"""Position ids that no encoding can take are refused, with their place."""

from __future__ import annotations

import pytest
import torch

from ropewalk.errors import PositionError
from ropewalk.positions.checks import check_position_ids, check_values


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (torch.tensor([[0.0, 1.0]]), "float32"),
        (torch.tensor([[True, False]]), "bools"),
        (torch.tensor(3), r"shape \(\)"),
        (torch.zeros(3, 1, 2, dtype=torch.long), r"shape \(3, 1, 2\)"),
        (torch.tensor([[0, 1], [2, -7]]), "value -7 at row 1, column 1"),
        (torch.tensor([0, -1]), "value -1 at column 1"),
    ],
)
def test_what_is_no_position_is_refused(ids: torch.Tensor, sentence: str) -> None:
    with pytest.raises(PositionError, match=sentence):
        check_position_ids(ids)


def test_an_axis_is_taken_where_the_encoding_has_axes() -> None:
    check_position_ids(torch.zeros(3, 1, 2, dtype=torch.int32), axes=True)
    with pytest.raises(PositionError, match="value -1 at axis 2, row 0, column 1"):
        check_position_ids(torch.tensor([[[0, 0]], [[0, 0]], [[0, -1]]]), axes=True)


def test_the_values_of_a_meta_tensor_are_not_asked_for() -> None:
    check_position_ids(torch.empty(1, 4, dtype=torch.long, device="meta"))


def test_no_positions_at_all_are_fine() -> None:
    check_values(torch.ones(0, dtype=torch.bool), torch.ones(0, dtype=torch.long), "never")
