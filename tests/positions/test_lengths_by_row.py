"""Schedules that depend on the length, in a batch of rows of different lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ropewalk.errors import LengthError, ScheduleError
from ropewalk.positions.rotary import Rotary
from ropewalk.rope import spec
from ropewalk.rope.schedules import DynamicNtk, LongRope

DYNAMIC = spec.RotarySpec(8, 8, 1e4, scaling=DynamicNtk(2.0, 4))
LONG = spec.RotarySpec(8, 8, 1e4, scaling=LongRope((1.0,) * 4, (2.0, 3.0, 4.0, 5.0), 5, 4.0))
IDS = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 1, 2], [0, 0, 0, 1, 2, 3]])
LENGTHS = (6, 3, 4)
"""Rows 1 and 2 are padded on the left."""


def vectors(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, 4, 6, 8, generator=generator), torch.randn(
        rows, 2, 6, 8, generator=generator
    )


@pytest.mark.parametrize("rotary", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_each_row_is_rotated_as_it_would_be_alone(rotary: spec.RotarySpec) -> None:
    q, k = vectors(3)
    encoding = Rotary(rotary)
    together = encoding.rotate(q, k, IDS, length=LENGTHS)
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        alone = encoding.rotate(q[one], k[one], IDS[one], length=length)
        assert all(torch.equal(a[one], b) for a, b in zip(together, alone, strict=True))
    # One length for all would have rotated the short rows by the long row's schedule.
    by_longest = encoding.rotate(q, k, IDS, length=max(LENGTHS))
    assert not torch.equal(by_longest[0][1], together[0][1])


def test_one_row_of_positions_serves_rows_of_several_lengths() -> None:
    q, k = vectors(3)
    encoding = Rotary(DYNAMIC)
    shared = encoding.rotate(q, k, torch.arange(6), length=LENGTHS)
    stated = encoding.rotate(q, k, torch.arange(6).expand(3, 6), length=LENGTHS)
    assert all(map(torch.equal, shared, stated))


def test_positions_on_several_axes_have_a_length_a_row_too() -> None:
    rotary = spec.RotarySpec(8, 8, 1e4, scaling=DynamicNtk(2.0, 4), sections=(2, 1, 1))
    q, k = vectors(3)
    ids = torch.stack((IDS, IDS + 1, IDS + 2))
    together = Rotary(rotary).rotate(q, k, ids, length=list(LENGTHS))
    alone = Rotary(rotary).rotate(q[1:2], k[1:2], ids[:, 1:2], length=3)
    assert torch.equal(together[0][1:2], alone[0])


@pytest.mark.parametrize(
    ("length", "error", "named"),
    [
        ((6, 3), LengthError, "length holds 2 numbers"),
        ((), LengthError, "length holds 0 numbers"),
        ((6, 3, -1), LengthError, "the length is -1"),
        ((6, 3, 2.5), LengthError, "the length is 2.5"),
        (torch.tensor([6, 3, 4]), ScheduleError, "a whole number, or one per row"),
    ],
)
def test_other_lengths_are_refused(length: Any, error: type[Exception], named: str) -> None:
    q, k = vectors(3)
    with pytest.raises(error, match=named):
        Rotary(DYNAMIC).rotate(q, k, IDS, length=length)


def test_no_lengths_at_all_are_refused() -> None:
    with pytest.raises(LengthError, match="length holds 0 numbers"):
        Rotary(DYNAMIC).tables(torch.arange(3), ())
