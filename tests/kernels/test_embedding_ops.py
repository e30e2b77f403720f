"""The embedding kernels as operators of torch: its own checks, compilation, autocast, vmap."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.errors import RowError
from ropewalk.kernels import embedding_ops, lookup, sgd_rows_

IDS = torch.tensor([[3, 3, 0, 9], [1, 9, 9, 3]])
POSITIONS = torch.arange(4)
OPERATORS = embedding_ops.OPERATORS


def tables(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return (
        torch.randn(10, 6, dtype=dtype, requires_grad=True),
        torch.randn(5, 6, dtype=dtype, requires_grad=True),
    )


def test_torch_finds_nothing_wrong_with_the_operators() -> None:
    table, added = tables()
    grad = torch.randn(2, 4, 6, requires_grad=True)
    check = torch.library.opcheck
    check(OPERATORS.embedding_lookup.default, (IDS, table, 2.0, added, POSITIONS, -1, 1, False))
    check(OPERATORS.embedding_lookup.default, (IDS, table, 2.0, None, None, 3, -1, False))
    check(OPERATORS.embedding_gradient.default, (grad, IDS, 10, 3, 2.0, torch.float32))
    plain, table = grad.detach(), table.detach()
    check(OPERATORS.embedding_gradient_rows.default, (plain, IDS, 10, 3, 2.0, torch.float32))
    out = torch.empty(2, 4, 6)
    check(OPERATORS.embedding_lookup_out.default, (IDS, table, 2.0, None, None, out))
    check(OPERATORS.embedding_sgd_.default, (table, IDS, plain, 0.1, 1.0, -1))


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


@pytest.mark.parametrize("sparse", [False, True])
def test_compiled_whole_it_gives_the_same_and_locates_a_bad_id(sparse: bool) -> None:
    def run(ids: Tensor, table: Tensor, added: Tensor) -> Tensor:
        placed = lookup(ids, table, scale=1.5, added=added, position_ids=POSITIONS, sparse=sparse)
        return placed.sin().sum()

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    pair, twins = tables(), tables()
    compiled(IDS, *pair).backward()
    run(IDS, *twins).backward()
    for ours, theirs in zip(pair, twins, strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad.to_dense(), theirs.grad.to_dense())
    with pytest.raises(RowError, match="holds 13 at row 0, column 0"):
        compiled(IDS + 10, *pair)


def test_a_compiled_step_in_place_changes_the_table_itself() -> None:
    def run(table: Tensor, grad: Tensor) -> Tensor:
        return sgd_rows_(table, IDS, grad, 0.5) * 1.0

    table = tables()[0].detach()
    twin, grad = table.clone(), torch.randn(2, 4, 6)
    torch.compile(run, fullgraph=True, backend="aot_eager")(table, grad)
    assert torch.equal(table, sgd_rows_(twin, IDS, grad, 0.5))


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
