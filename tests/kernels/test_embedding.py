"""One pass over the tokens: the eager chain's bits, one-hot products, wrong ids, every path."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.errors import PositionError, RowError, TensorError, UsageError
from ropewalk.kernels import lookup

HALVES = (torch.bfloat16, torch.float16)


def chain(
    ids: Tensor, table: Tensor, scale: float, added: Tensor, position_ids: Tensor | None
) -> Tensor:
    """What models do: look up, scale, look up, add; sums of halves in fp32."""
    rows = functional.embedding(ids, table) * scale
    if position_ids is not None:
        added = functional.embedding(position_ids, added)
    return (rows + added.to(torch.promote_types(added.dtype, torch.float32))).to(table.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES, torch.float64])
@pytest.mark.parametrize("width", [1, 7, 48, 517])
def test_a_lookup_has_the_bits_of_the_eager_chain(
    path: str, dtype: torch.dtype, width: int
) -> None:
    generator = torch.Generator().manual_seed(width)
    table = torch.randn(90, width, generator=generator).to(dtype)
    ids = torch.randint(0, 90, (3, 11), generator=generator)
    scale = math.sqrt(width)
    for positions in (torch.randn(20, width, generator=generator), table[:20].clone()):
        for position_ids in (torch.arange(11), torch.randint(0, 20, (3, 11), generator=generator)):
            given = lookup(ids, table, scale=scale, added=positions, position_ids=position_ids)
            assert torch.equal(given, chain(ids, table, scale, positions, position_ids)), path
        for ready in (positions[:11], positions[:11].expand(3, 11, width), positions[:11].mT.mT):
            assert torch.equal(
                lookup(ids, table, scale=scale, added=ready), chain(ids, table, scale, ready, None)
            )
        own = torch.randn(3, 11, width, generator=generator).to(positions.dtype)
        assert torch.equal(
            lookup(ids, table, scale=scale, added=own), chain(ids, table, scale, own, None)
        )
    assert torch.equal(lookup(ids, table), functional.embedding(ids, table))
    assert torch.equal(lookup(ids[0], table, scale=3.3), functional.embedding(ids[0], table) * 3.3)


@pytest.mark.usefixtures("path")
def test_a_lookup_is_the_product_with_one_hot_rows_and_so_is_its_gradient() -> None:
    table, rows = (torch.randn(9, 5, requires_grad=True) for _ in range(2))
    with torch.no_grad():
        rows.copy_(table)
    ids = torch.tensor([[4, 4, 0], [8, 4, 1]])
    weights = torch.randn(2, 3, 5)
    (lookup(ids, table, scale=1.5) * weights).sum().backward()
    (functional.one_hot(ids, 9).float() @ rows * 1.5 * weights).sum().backward()
    assert table.grad is not None
    torch.testing.assert_close(table.grad, rows.grad, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.usefixtures("path")
def test_halves_are_rounded_where_the_chain_rounds_and_not_once(dtype: torch.dtype) -> None:
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    table = bits.view(-1, 64)
    ids, added = torch.arange(table.shape[0]), torch.linspace(-3.0, 3.0, 64).repeat(1024, 1)
    given = lookup(ids, table, scale=1.0 / 3.0, added=added)
    # Every value there is, subnormal, infinite and NaN among them, rounded twice.
    by_hand = ((table.float() * torch.tensor(1.0 / 3.0)).to(dtype).float() + added).to(dtype)
    assert torch.equal(given.isnan(), by_hand.isnan())
    kept = ~given.isnan()
    assert torch.equal(given[kept], by_hand[kept])
    once = (table.float() * torch.tensor(1.0 / 3.0) + added).to(dtype)
    assert not torch.equal(given[kept], once[kept])


@pytest.mark.usefixtures("path")
def test_tables_of_any_strides_serve() -> None:
    wide = torch.randn(40, 64)
    ids = torch.tensor([[39, 0, 7]])
    for table in (wide[:, :32], wide.mT, wide[::2], wide[:, ::3]):
        some = ids % table.shape[0]
        position_ids = torch.tensor([0, 2, 1])
        given = lookup(some, table, scale=0.7, added=table, position_ids=position_ids)
        assert torch.equal(given, chain(some, table, 0.7, table, position_ids))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
@pytest.mark.usefixtures("path")
def test_ids_and_positions_are_integers_of_any_width(dtype: torch.dtype) -> None:
    table = torch.randn(40, 6)
    ids, position_ids = torch.tensor([[39, 0, 7]]), torch.tensor([2, 0, 1])
    given = lookup(ids.to(dtype), table, added=table, position_ids=position_ids.to(dtype)[None])
    assert torch.equal(given, chain(ids, table, 1.0, table, position_ids))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 4)])
@pytest.mark.usefixtures("path")
def test_no_tokens_are_no_error(shape: tuple[int, ...]) -> None:
    ids = torch.zeros(shape, dtype=torch.int64)
    table = torch.randn(5, 3, requires_grad=True)
    out = lookup(ids, table, scale=2.0, added=torch.randn(shape[-1], 3))
    assert out.shape == (*shape, 3)
    out.sum().backward()
    assert table.grad is not None
    assert not table.grad.any()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.usefixtures("path")
def test_every_token_is_placed_whatever_the_threads(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        # Large enough for huge pages and for stores past the caches.
        table, added = torch.randn(300, 1024), torch.randn(4201, 1024)
        ids = torch.randint(0, 300, (2, 4201))
        given = lookup(ids, table, scale=32.0, added=added)
        assert torch.equal(given, chain(ids, table, 32.0, added, None))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([[1, 2], [3, 10]], "10 at row 1, column 1; allowed is 0 to 9: the table has 10 rows"),
        ([[-1, 2], [3, 10]], "-1 at row 0, column 0; allowed is 0 to 9"),
        ([4, -(2**40)], "-1099511627776 at column 1"),
        ([[[1]]], "shape (1, 1, 1)"),
        ([[0.5]], "dtype torch.float32"),
    ],
)
@pytest.mark.usefixtures("path")
def test_an_id_without_a_row_is_an_error_with_its_place(ids: list[object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        lookup(torch.tensor(ids), torch.randn(10, 4))
    assert words in str(caught.value)


@pytest.mark.usefixtures("path")
def test_a_position_without_a_row_is_an_error_with_its_place() -> None:
    table, ids = torch.randn(10, 4), torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(PositionError, match="position_ids holds 10 at column 2; allowed is 0 to 9"):
        lookup(ids, table, added=table, position_ids=torch.tensor([0, 1, 10]))
    # Where both are wrong, the ids are named.
    with pytest.raises(RowError, match="token ids holds 12 at row 0, column 0"):
        lookup(ids + 12, table, added=table, position_ids=torch.tensor([0, 1, 10]))


def test_what_does_not_fit_together_is_refused() -> None:
    table, ids = torch.randn(10, 4), torch.zeros(2, 3, dtype=torch.int64)
    positions = torch.arange(3)
    with pytest.raises(TensorError, match=r"added has shape \(4, 4\); for ids \(2, 3\)"):
        lookup(ids, table, added=table[:4])
    with pytest.raises(TensorError, match=r"it is a table \(positions, 4\)"):
        lookup(ids, table, added=table[:, :3], position_ids=positions)
    with pytest.raises(UsageError, match="without `added`"):
        lookup(ids, table, position_ids=positions)
    with pytest.raises(PositionError, match=r"position_ids has shape \(2,\)"):
        lookup(ids, table, added=table, position_ids=positions[:2])
    with pytest.raises(TensorError, match="positions are integers"):
        lookup(ids, table, added=table, position_ids=positions.float())
    with pytest.raises(TensorError, match="what is added is floating point"):
        lookup(ids, table, added=torch.ones(3, 4, dtype=torch.int64))
    with pytest.raises(TensorError, match=r"must be \(rows, d\), floating point"):
        lookup(ids, torch.ones(3, 4, dtype=torch.int64))
    with pytest.raises(UsageError, match="scale is nan"):
        lookup(ids, table, scale=math.nan)
    with pytest.raises(RowError, match="padding_idx is 10; the table has rows 0 to 9"):
        lookup(ids, table, padding_idx=10)
