"""The lookup under Triton's interpreter, held to torch's operators in fp64."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from ropewalk.errors import PositionError, RowError, TensorError

# Relative to the largest term, for two roundings; the interpreter truncates to bf16.
BOUNDS = {torch.float32: 2e-7, torch.float16: 2**-10, torch.bfloat16: 2**-6}


@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("width", [5, 64, 576, 1300])
def test_rows_are_gathered_scaled_and_placed(
    lookup: ModuleType, dtype: torch.dtype, width: int
) -> None:
    table, added = torch.randn(40, width).to(dtype), torch.randn(17, width)
    ids, positions = torch.randint(0, 40, (2, 7)), torch.randint(0, 17, (7,))
    got = lookup.lookup(ids, table, 22.6, added, positions)
    terms = table[ids].double() * 22.6, added[positions].double()
    bound = BOUNDS[dtype] * torch.maximum(terms[0].abs(), terms[1].abs())
    assert got.dtype == dtype
    assert ((got.double() - terms[0] - terms[1]).abs() <= 2 * bound).all()
    if dtype != torch.bfloat16:
        separately = ((table[ids] * 22.6).float() + added[positions]).to(dtype)
        assert torch.equal(got, separately)
    assert torch.equal(lookup.lookup(ids[0], table), table[ids[0]])


def test_positions_by_token_by_row_and_ready_made(lookup: ModuleType) -> None:
    table, added = torch.randn(9, 6), torch.randn(5, 6)
    ids, own = torch.randint(0, 9, (2, 5)), torch.randint(0, 5, (2, 5))
    for places in (own, own[0], own[:1], own.int(), own.t().contiguous().t()):
        wanted = table[ids] + added[places.long()]
        assert torch.equal(lookup.lookup(ids, table, 1.0, added, places), wanted)
    for ready in (added, added[None], torch.randn(2, 5, 6), torch.randn(2, 1, 6), added[:1]):
        assert torch.equal(lookup.lookup(ids, table, 1.0, ready), table[ids] + ready)


def test_a_table_may_lie_in_memory_as_it_likes(lookup: ModuleType) -> None:
    ids = torch.tensor([3, 0, 3])
    for table in (torch.randn(6, 4).t(), torch.randn(4, 12)[:, ::2], torch.randn(6).expand(4, 6)):
        assert torch.equal(lookup.lookup(ids, table, 2.0), table[ids] * 2.0)
    assert lookup.lookup(ids[:0], table).shape == (0, 6)


@pytest.mark.parametrize("wrong", [-1, 4, 2**40])
def test_for_an_id_without_a_row_nothing_is_read(lookup: ModuleType, wrong: int) -> None:
    # Compiled, it fails an assert; the interpreter leaves asserts out, and shows what was read.
    around = torch.full((6, 3), float("nan"))
    around[1:5] = 1.0
    got = lookup.lookup(torch.tensor([0, wrong]), around[1:5])
    assert got.tolist() == [[1.0] * 3, [0.0] * 3]


def test_what_does_not_fit_is_refused(lookup: ModuleType) -> None:
    ids, table = torch.tensor([[0, 1]]), torch.zeros(3, 4)
    with pytest.raises(TensorError, match=r"torch\.float32"):
        lookup.lookup(ids.float(), table)
    with pytest.raises(TensorError, match=r"torch\.float64"):
        lookup.lookup(ids, table.double())
    with pytest.raises(TensorError, match="4 channels"):
        lookup.lookup(ids, table, 1.0, torch.zeros(3, 5), ids)
    with pytest.raises(PositionError, match=r"position_ids have shape \(3,\)"):
        lookup.lookup(ids, table, 1.0, table, torch.tensor([0, 1, 2]))
    with pytest.raises(RowError, match="no rows"):
        lookup.lookup(ids, table[:0])
