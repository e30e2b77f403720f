"""The lookup as an operator of torch: its checks, gradients, compilation, autocast, vmap."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk.errors import RowError
from ropewalk.kernels import lookup
from ropewalk.kernels.embedding import OPERATOR

IDS = torch.tensor([[3, 3, 0, 9], [1, 9, 9, 3]])
POSITIONS = torch.arange(4)
HALVES = (torch.bfloat16, torch.float16)


def tables(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return (
        torch.randn(10, 6, dtype=dtype, requires_grad=True),
        torch.randn(5, 6, dtype=dtype, requires_grad=True),
    )


def test_torch_finds_nothing_wrong_with_the_operator() -> None:
    table, added = tables()
    check = torch.library.opcheck
    check(OPERATOR.default, (IDS, table, 2.0, added, POSITIONS, -1, 1))
    check(OPERATOR.default, (IDS, table, 2.0, None, None, 3, -1))


def test_gradients_are_those_of_finite_differences_to_the_second_order() -> None:
    def run(table: Tensor, added: Tensor) -> Tensor:
        out = lookup(IDS, table, scale=1.7, added=added, position_ids=POSITIONS)
        return out**2

    pair = tables(torch.float64)
    assert torch.autograd.gradcheck(run, pair)
    assert torch.autograd.gradgradcheck(run, pair)
    assert torch.autograd.gradcheck(lambda t: lookup(IDS, t, scale=1.7).sin(), pair[:1])


def test_a_second_gradient_is_no_finite_difference_where_padding_takes_none() -> None:
    table, _ = tables(torch.float64)
    (first,) = torch.autograd.grad(
        (lookup(IDS, table, padding_idx=9) ** 3).sum(), table, create_graph=True
    )
    (second,) = torch.autograd.grad(first.sum(), table)
    twin = table.detach().requires_grad_()
    (first,) = torch.autograd.grad(
        (functional.embedding(IDS, twin, 9) ** 3).sum(), twin, create_graph=True
    )
    (theirs,) = torch.autograd.grad(first.sum(), twin)
    torch.testing.assert_close(second, theirs)


def test_compiled_whole_it_gives_the_same_and_locates_a_bad_id() -> None:
    def run(ids: Tensor, table: Tensor, added: Tensor) -> Tensor:
        placed = lookup(ids, table, scale=1.5, added=added, position_ids=POSITIONS)
        return placed.sin().sum()

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    pair, twins = tables(), tables()
    compiled(IDS, *pair).backward()
    run(IDS, *twins).backward()
    for ours, theirs in zip(pair, twins, strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad)
    with pytest.raises(RowError, match="holds 13 at row 0, column 0"):
        compiled(IDS + 10, *pair)


def test_autocast_changes_nothing_as_it_changes_nothing_in_the_chain() -> None:
    table, added = (t.detach() for t in tables())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        given = lookup(IDS, table, scale=3.3, added=added, position_ids=POSITIONS)
        chain = functional.embedding(IDS, table) * 3.3 + functional.embedding(POSITIONS, added)
    assert given.dtype == chain.dtype == torch.float32
    assert torch.equal(given, chain)


def test_vmap_maps_ids_and_tables() -> None:
    table, _ = (t.detach() for t in tables())
    ids = torch.stack((IDS, IDS.flip(0), IDS))
    mapped = torch.vmap(lambda i: lookup(i, table, scale=2.0))(ids)
    assert torch.equal(mapped, functional.embedding(ids, table) * 2.0)
    both = torch.vmap(lookup, in_dims=(None, 1))(IDS, torch.stack((table, -table), dim=1))
    assert torch.equal(both, torch.stack((lookup(IDS, table), -lookup(IDS, table))))


def test_functional_transforms_differentiate_it() -> None:
    table, added = tables()

    def run(table: Tensor, added: Tensor) -> Tensor:
        return lookup(IDS, table, scale=2.0, added=added, position_ids=POSITIONS).sin().sum()

    given = torch.func.grad(run, argnums=(0, 1))(table.detach(), added.detach())
    wanted = torch.autograd.grad(run(table, added), (table, added))
    torch.testing.assert_close(given, wanted)


def test_tensors_without_values_have_the_shape_of_the_result() -> None:
    table = torch.empty(10, 6, device="meta", dtype=torch.bfloat16)
    out = lookup(IDS.to("meta"), table, scale=2.0)
    assert out.shape == (2, 4, 6)
    assert out.dtype == torch.bfloat16


def tokens(rows: int = 50, shape: tuple[int, ...] = (3, 40), width: int = 96) -> tuple[Tensor, ...]:
    """Ids of which many repeat, and a gradient for each token."""
    torch.manual_seed(rows)
    return torch.randint(0, rows, shape), torch.randn(*shape, width)


def table_of(rows: int, width: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, width, generator=torch.Generator().manual_seed(1)))


def gradient(table: Tensor) -> Tensor:
    assert table.grad is not None
    return table.grad


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("padding_idx", [None, 7])
def test_the_gradient_of_the_table_has_the_bits_of_torch(padding_idx: int | None) -> None:
    ids, grad = tokens()
    ours, theirs = table_of(50, 96), table_of(50, 96)
    lookup(ids, ours, scale=1.7, padding_idx=padding_idx).backward(grad)
    (functional.embedding(ids, theirs, padding_idx) * 1.7).backward(grad)
    assert torch.equal(gradient(ours), gradient(theirs))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("dtype", HALVES)
def test_repeated_tokens_of_halves_are_summed_in_fp32(dtype: torch.dtype) -> None:
    # 4,096 times 1/256: a sum in bfloat16 stays at 1, since 1 + 1/256 rounds to 1.
    ids = torch.zeros(4096, dtype=torch.int64)
    table = nn.Parameter(torch.zeros(3, 40, dtype=dtype))
    lookup(ids, table).backward(torch.full((4096, 40), 1 / 256, dtype=dtype))
    assert torch.equal(gradient(table)[0], torch.full((40,), 16.0, dtype=dtype))
    assert not gradient(table)[1:].any()


@pytest.mark.usefixtures("path")
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
