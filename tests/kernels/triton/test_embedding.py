"""The embedding kernels under Triton's interpreter, held to torch's operators in fp64."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from ropewalk.errors import PositionError, RowError, TensorError, UsageError

# Relative to the largest term, for two roundings; the interpreter truncates to bf16.
BOUNDS = {torch.float32: 2e-7, torch.float16: 2**-10, torch.bfloat16: 2**-6}


@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("width", [5, 64, 576, 1300])
def test_rows_are_gathered_scaled_and_placed(
    embedding: ModuleType, dtype: torch.dtype, width: int
) -> None:
    table, added = torch.randn(40, width).to(dtype), torch.randn(17, width)
    ids, positions = torch.randint(0, 40, (2, 7)), torch.randint(0, 17, (7,))
    got = embedding.lookup(ids, table, 22.6, added, positions)
    terms = table[ids].double() * 22.6, added[positions].double()
    bound = BOUNDS[dtype] * torch.maximum(terms[0].abs(), terms[1].abs())
    assert got.dtype == dtype
    assert ((got.double() - terms[0] - terms[1]).abs() <= 2 * bound).all()
    if dtype != torch.bfloat16:
        separately = ((table[ids] * 22.6).float() + added[positions]).to(dtype)
        assert torch.equal(got, separately)
    assert torch.equal(embedding.lookup(ids[0], table), table[ids[0]])


def test_positions_by_token_by_row_and_ready_made(embedding: ModuleType) -> None:
    table, added = torch.randn(9, 6), torch.randn(5, 6)
    ids, own = torch.randint(0, 9, (2, 5)), torch.randint(0, 5, (2, 5))
    for places in (own, own[0], own[:1], own.int(), own.t().contiguous().t()):
        wanted = table[ids] + added[places.long()]
        assert torch.equal(embedding.lookup(ids, table, 1.0, added, places), wanted)
    for ready in (added, added[None], torch.randn(2, 5, 6), torch.randn(2, 1, 6), added[:1]):
        assert torch.equal(embedding.lookup(ids, table, 1.0, ready), table[ids] + ready)


def test_a_table_may_lie_in_memory_as_it_likes(embedding: ModuleType) -> None:
    ids = torch.tensor([3, 0, 3])
    for table in (torch.randn(6, 4).t(), torch.randn(4, 12)[:, ::2], torch.randn(6).expand(4, 6)):
        assert torch.equal(embedding.lookup(ids, table, 2.0), table[ids] * 2.0)
    assert embedding.lookup(ids[:0], table).shape == (0, 6)


@pytest.mark.parametrize("wrong", [-1, 4, 2**40])
def test_for_an_id_without_a_row_nothing_is_read(embedding: ModuleType, wrong: int) -> None:
    # Compiled, it fails an assert; the interpreter leaves asserts out, and shows what was read.
    around = torch.full((6, 3), float("nan"))
    around[1:5] = 1.0
    got = embedding.lookup(torch.tensor([0, wrong]), around[1:5])
    assert got.tolist() == [[1.0] * 3, [0.0] * 3]


@pytest.mark.parametrize("dtype", list(BOUNDS))
def test_the_gradient_is_the_sum_over_a_rows_tokens(
    embedding: ModuleType, dtype: torch.dtype
) -> None:
    ids = torch.randint(0, 9, (2, 30))
    grad = torch.randn(2, 30, 21).to(dtype)
    touched, rows = embedding.gradient_rows(grad, ids, 9, 3, 2.5, dtype)
    exact = torch.zeros(9, 21, dtype=torch.float64)
    exact.index_add_(0, ids.view(-1), 2.5 * grad.view(-1, 21).double())
    exact[3] = 0
    assert touched.tolist() == sorted(set(ids.view(-1).tolist()) - {3})
    bound = {torch.float32: 1e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}[dtype]
    torch.testing.assert_close(rows.double(), exact[touched], rtol=bound, atol=1e-4)
    whole = embedding.gradient(grad, ids, 9, 3, 2.5, dtype)
    assert torch.equal(whole[touched], rows)
    assert not whole[3].any()


def test_a_frequent_token_is_summed_in_pieces(embedding: ModuleType) -> None:
    count = 2 * embedding.PIECE + 3
    ids = torch.cat((torch.full((count,), 7), torch.tensor([2, 5, 2]), torch.full((count,), 1)))
    grad = torch.randint(-8, 9, (len(ids), 4)).float()
    touched, rows = embedding.gradient_rows(grad, ids, 8, -1, 0.5, torch.float32)
    exact = torch.zeros(8, 4).index_add_(0, ids, 0.5 * grad)
    assert touched.tolist() == [1, 2, 5, 7]
    assert torch.equal(rows, exact[touched])


def test_a_step_on_touched_rows_is_that_of_torchs_optimiser(embedding: ModuleType) -> None:
    layer = torch.nn.Embedding(11, 6)
    ids, grad = torch.randint(0, 11, (3, 8)), torch.randn(3, 8, 6)
    ours = layer.weight.detach().clone()
    (layer(ids) * 3.0).backward(grad)
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    embedding.sgd_(ours, ids, grad, 0.1, 3.0, -1)
    torch.testing.assert_close(ours, layer.weight.detach())


def test_no_token_touches_no_row(embedding: ModuleType) -> None:
    none = torch.zeros(0, dtype=torch.int64)
    touched, rows = embedding.gradient_rows(torch.zeros(0, 4), none, 6, -1, 1.0, torch.float32)
    assert (touched.shape, rows.shape) == ((0,), (0, 4))
    only_padding = embedding.gradient_rows(
        torch.ones(2, 4), torch.tensor([5, 5]), 6, 5, 1.0, torch.float32
    )
    assert only_padding[1].shape == (0, 4)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_gradient_for_no_row_of_the_table_fails_an_assert(
    embedding: ModuleType, wrong: int
) -> None:
    with pytest.raises(RuntimeError, match="0 to 3"):
        embedding.gradient_rows(
            torch.ones(2, 4), torch.tensor([0, wrong]), 4, 7, 1.0, torch.float32
        )


def test_the_result_may_go_where_it_is_wanted(embedding: ModuleType) -> None:
    ids, table, out = torch.tensor([1, 0]), torch.randn(3, 4), torch.empty(2, 4)
    assert embedding.lookup(ids, table, out=out) is out
    assert torch.equal(out, table[ids])
    with pytest.raises(UsageError, match="contiguous"):
        embedding.lookup(ids, table, out=torch.empty(4, 2).t())


def test_what_does_not_fit_is_refused(embedding: ModuleType) -> None:
    ids, table = torch.tensor([[0, 1]]), torch.zeros(3, 4)
    with pytest.raises(TensorError, match=r"torch\.float32"):
        embedding.lookup(ids.float(), table)
    with pytest.raises(UsageError, match=r"torch\.float64"):
        embedding.lookup(ids, table.double())
    with pytest.raises(UsageError, match="4 channels"):
        embedding.lookup(ids, table, 1.0, torch.zeros(3, 5), ids)
    with pytest.raises(PositionError, match=r"position_ids have shape \(3,\)"):
        embedding.lookup(ids, table, 1.0, table, torch.tensor([0, 1, 2]))
    with pytest.raises(UsageError, match="d_model"):
        embedding.gradient_rows(torch.zeros(3, 4), ids, 3, -1, 1.0, torch.float32)
    with pytest.raises(RowError, match="no rows"):
        embedding.lookup(ids, table[:0])
