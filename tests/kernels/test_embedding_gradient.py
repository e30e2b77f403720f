"""Gradients of a lookup, whole and by rows: torch's own, its optimizers, padding, repeats."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk.errors import RowError, TensorError, UsageError
from ropewalk.kernels import lookup, sgd_rows_

HALVES = (torch.bfloat16, torch.float16)
pytestmark = pytest.mark.usefixtures("path")


def tokens(rows: int = 50, shape: tuple[int, ...] = (3, 40), width: int = 96) -> tuple[Tensor, ...]:
    """Ids of which many repeat, and a gradient for each token."""
    torch.manual_seed(rows)
    return torch.randint(0, rows, shape), torch.randn(*shape, width)


def table_of(rows: int, width: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, width, generator=torch.Generator().manual_seed(1)))


def gradient(table: Tensor) -> Tensor:
    assert table.grad is not None
    return table.grad


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("padding_idx", [None, 7])
def test_the_gradient_of_the_table_has_the_bits_of_torch(
    sparse: bool, padding_idx: int | None
) -> None:
    ids, grad = tokens()
    ours, theirs = table_of(50, 96), table_of(50, 96)
    lookup(ids, ours, scale=1.7, padding_idx=padding_idx, sparse=sparse).backward(grad)
    (functional.embedding(ids, theirs, padding_idx) * 1.7).backward(grad)
    given = gradient(ours)
    assert given.is_sparse == sparse
    if sparse:
        # Each row once, ascending; torch forgets that this is so when it fills `.grad`.
        kept = ids.unique() if padding_idx is None else ids[ids != padding_idx].unique()
        assert torch.equal(given._indices()[0], kept)
        (fresh,) = torch.autograd.grad(lookup(ids, ours, sparse=True).sum(), ours)
        assert fresh.is_coalesced()
        given = given.to_dense()
    assert torch.equal(given, gradient(theirs))


@pytest.mark.parametrize("dtype", HALVES)
def test_repeated_tokens_of_halves_are_summed_in_fp32(dtype: torch.dtype) -> None:
    # 4,096 times 1/256: a sum in bfloat16 stays at 1, since 1 + 1/256 rounds to 1.
    ids = torch.zeros(4096, dtype=torch.int64)
    table = nn.Parameter(torch.zeros(3, 40, dtype=dtype))
    lookup(ids, table).backward(torch.full((4096, 40), 1 / 256, dtype=dtype))
    assert torch.equal(gradient(table)[0], torch.full((40,), 16.0, dtype=dtype))
    assert not gradient(table)[1:].any()


def test_the_gradient_is_the_same_on_any_number_of_threads() -> None:
    before = torch.get_num_threads()
    given = []
    try:
        # Evenly spread ids are shared out by rows, one id for most tokens by channels.
        for ids in (torch.randint(0, 999, (4000,)), torch.randint(0, 999, (4000,)) % 999 // 990):
            grad = torch.randn(4000, 70)
            for threads in (1, 2, 5):
                torch.set_num_threads(threads)
                table = table_of(999, 70)
                lookup(ids, table).backward(grad)
                given.append(gradient(table))
    finally:
        torch.set_num_threads(before)
    for one, two, five in (given[:3], given[3:]):
        assert torch.equal(one, two)
        assert torch.equal(one, five)


@pytest.mark.parametrize("ready", [False, True])
def test_what_is_added_has_its_gradient_too(ready: bool) -> None:
    ids, grad = tokens()
    positions, twin = table_of(60, 96), table_of(60, 96)
    position_ids = torch.arange(40) + 5
    if ready:
        lookup(ids, torch.randn(50, 96), added=positions[:40]).backward(grad)
        (torch.randn(3, 40, 96) + twin[:40]).backward(grad)
    else:
        lookup(
            ids,
            torch.randn(50, 96),
            added=positions,
            position_ids=position_ids,
            added_padding_idx=6,
        ).backward(grad)
        (torch.randn(3, 40, 96) + functional.embedding(position_ids, twin, 6)).backward(grad)
    torch.testing.assert_close(gradient(positions), gradient(twin), rtol=1e-6, atol=1e-6)
    assert gradient(twin)[6].any() == ready


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_on_touched_rows_is_a_dense_step_of_sgd(dtype: torch.dtype, path: str) -> None:
    ids, grad = tokens()
    ids, grad = ids.flatten()[:50].view(2, 25), grad.flatten(0, 1)[:50].view(2, 25, 96).to(dtype)
    table, twin = (nn.Parameter(table_of(50, 96).detach().to(dtype)) for _ in range(2))
    optimizer = torch.optim.SGD([twin], lr=0.1)
    for _ in range(3):
        assert sgd_rows_(table, ids, grad, 0.1, scale=2.0, padding_idx=4) is table
        rows = functional.embedding(ids, twin, 4).float() * 2.0
        optimizer.zero_grad()
        rows.backward(grad.float())
        if dtype is not torch.float32:  # summed wide, as ours; torch's own sum is in bfloat16
            wide = torch.zeros(50, 96).index_add(0, ids.flatten(), 2.0 * grad.float().flatten(0, 1))
            wide[4] = 0.0
            twin.grad = wide.to(dtype)
        optimizer.step()
    if path == "baseline":  # no fused multiply-add, which torch has: one rounding more a step
        torch.testing.assert_close(table, twin, rtol=2**-7 if dtype in HALVES else 1e-6, atol=1e-6)
    else:
        assert torch.equal(table, twin)


@pytest.mark.parametrize("kind", ["SGD", "SparseAdam"])
def test_torch_optimizers_take_the_rows_as_they_take_their_own(kind: str) -> None:
    ids, grad = tokens()
    ours, theirs = table_of(50, 96), table_of(50, 96)
    steps = [getattr(torch.optim, kind)([table], lr=0.01) for table in (ours, theirs)]
    for shift in (0, 3, 11):
        for optimizer in steps:
            optimizer.zero_grad()
        some = (ids // 3 + shift) % 50
        lookup(some, ours, sparse=True).backward(grad)
        functional.embedding(some, theirs, sparse=True).backward(grad)
        for optimizer in steps:
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_rows_of_tables_with_gaps_between_them_are_stepped_on_alone() -> None:
    ids, grad = tokens(width=32)
    memory = torch.randn(50, 80)
    before = memory.clone()
    sgd_rows_(memory[:, :32], ids % 10, grad, 0.5)
    assert torch.equal(memory[:, 32:], before[:, 32:])
    assert torch.equal(memory[10:], before[10:])
    dense = torch.zeros(10, 32).index_add(0, ids.flatten() % 10, grad.flatten(0, 1))
    torch.testing.assert_close(memory[:10, :32], before[:10, :32] - 0.5 * dense)


@pytest.mark.parametrize("bad", [-1, 50, 2**40])
def test_a_bad_id_is_an_error_and_changes_nothing(bad: int) -> None:
    ids, grad = tokens()
    ids[2, 39] = bad
    table = table_of(50, 96).detach()
    before = table.clone()
    with pytest.raises(RowError, match=f"holds {bad} at row 2, column 39; allowed is 0 to 49"):
        sgd_rows_(table, ids, grad, 0.1)
    assert torch.equal(table, before)


def test_a_step_on_all_padding_or_no_tokens_changes_nothing() -> None:
    table = table_of(5, 8).detach()
    before = table.clone()
    sgd_rows_(table, torch.full((6,), 2), torch.ones(6, 8), 0.1, padding_idx=2)
    sgd_rows_(table, torch.zeros(2, 0, dtype=torch.int64), torch.ones(2, 0, 8), 0.1)
    assert torch.equal(table, before)


def test_a_step_is_seen_by_autograd() -> None:
    table = table_of(5, 8)
    product = (table * table).sum()
    sgd_rows_(table, torch.tensor([1]), torch.ones(1, 8), 0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_arguments_of_a_step_that_do_not_fit_are_refused() -> None:
    ids, grad = tokens()
    table = table_of(50, 96).detach()
    with pytest.raises(TensorError, match=r"grad is \(3, 40, 95\) of torch.float32; for ids"):
        sgd_rows_(table, ids, grad[..., :95], 0.1)
    with pytest.raises(UsageError, match=r"lr is -0\.1"):
        sgd_rows_(table, ids, grad, -0.1)
