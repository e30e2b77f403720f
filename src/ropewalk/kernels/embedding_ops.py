"""The embedding kernels as torch operators: fake tensors, autograd, vmap.

`ropewalk::embedding_lookup` is differentiable in the table and in what is added;
`embedding_gradient` is its backward pass and differentiable in turn; `embedding_gradient_rows`
gives the same gradient as rows. `embedding_lookup_out` and `embedding_sgd_` write in place and
take no part in autograd. Everything runs in `cpu.embedding` or, on a GPU with Triton, in
`triton.embedding` where these serve the tensors, and otherwise in `embedding_reference`.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ropewalk.kernels import embedding_reference as reference
from ropewalk.kernels.bounds import check_position_rows, check_token_rows
from ropewalk.kernels.cpu import embedding as cpu

_LIBRARY = torch.library.Library("ropewalk", "FRAGMENT")

_SCHEMAS = (
    "embedding_lookup(Tensor ids, Tensor table, float scale, Tensor? added, "
    "Tensor? position_ids, int padding_idx, int added_padding_idx, bool sparse) -> Tensor",
    "embedding_lookup_out(Tensor ids, Tensor table, float scale, Tensor? added, "
    "Tensor? position_ids, Tensor(a!) out) -> ()",
    "embedding_gradient(Tensor grad, Tensor ids, SymInt rows, int padding_idx, float scale, "
    "ScalarType dtype) -> Tensor",
    "embedding_gradient_rows(Tensor grad, Tensor ids, SymInt rows, int padding_idx, float scale, "
    "ScalarType dtype) -> (Tensor, Tensor)",
    "embedding_sgd_(Tensor(a!) table, Tensor ids, Tensor grad, float lr, float scale, "
    "int padding_idx) -> ()",
)


def _lookup(
    ids: Tensor,
    table: Tensor,
    scale: float,
    added: Tensor | None,
    position_ids: Tensor | None,
    padding_idx: int,
    added_padding_idx: int,
    sparse: bool,
) -> Tensor:
    """See `embedding_reference.lookup`; the last three arguments concern the gradient alone."""
    del padding_idx, added_padding_idx, sparse
    if cpu.looks_up(ids, table, added, position_ids):
        out = cpu.empty((*ids.shape, table.shape[1]), table.dtype)
        cpu.lookup(ids, table, scale, added, position_ids, out)
        return out
    if gpu := _gpu(table, added):
        check_token_rows(ids, table.shape[0])
        if added is not None and position_ids is not None:
            check_position_rows(position_ids, added.shape[0])
        rows: Tensor = gpu.lookup(ids, table, scale, added, position_ids)
        return rows
    return reference.lookup(ids, table, scale, added, position_ids)


def _lookup_out(
    ids: Tensor,
    table: Tensor,
    scale: float,
    added: Tensor | None,
    position_ids: Tensor | None,
    out: Tensor,
) -> None:
    """As `_lookup`, into `out`."""
    if cpu.looks_up(ids, table, added, position_ids) and out.is_cpu and out.is_contiguous():
        cpu.lookup(ids, table, scale, added, position_ids, out)
        _changed(out)
    else:
        out.copy_(reference.lookup(ids, table, scale, added, position_ids))


def _gradient(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> Tensor:
    """See `embedding_reference.gradient`."""
    if cpu.sums(grad, ids, dtype):
        return cpu.gradient(grad, ids, rows, padding_idx, scale, dtype)
    if gpu := _gpu(grad):
        check_token_rows(ids, rows)
        whole: Tensor = gpu.gradient(grad, ids, rows, padding_idx, scale, dtype)
        return whole
    return reference.gradient(grad, ids, rows, padding_idx, scale, dtype)


def _gradient_rows(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """See `embedding_reference.gradient_rows`."""
    if cpu.sums(grad, ids, dtype):
        return cpu.gradient_rows(grad, ids, rows, padding_idx, scale, dtype)
    if gpu := _gpu(grad):
        check_token_rows(ids, rows)
        touched: tuple[Tensor, Tensor] = gpu.gradient_rows(
            grad, ids, rows, padding_idx, scale, dtype
        )
        return touched
    return reference.gradient_rows(grad, ids, rows, padding_idx, scale, dtype)


def _sgd_(
    table: Tensor, ids: Tensor, grad: Tensor, lr: float, scale: float, padding_idx: int
) -> None:
    """See `embedding_reference.sgd_`."""
    apart = table.stride(0) >= table.shape[1]  # and no expanded row, which torch refuses
    if apart and cpu.sums(grad, ids, table.dtype) and cpu.holds_rows(table):
        cpu.sgd_(table, ids, grad, lr, scale, padding_idx)
        _changed(table)
    else:
        reference.sgd_(table, ids, grad, lr, scale, padding_idx)


def _gpu(*tensors: Tensor | None) -> ModuleType | None:
    """The Triton kernels where they serve tables or gradients like these, None elsewhere.

    Not where Triton is not installed or the torch path was chosen.
    """
    if not all(x is None or x.is_cuda for x in tensors):
        return None
    kernels = _triton()
    return kernels if kernels is not None and kernels.serves(*tensors) else None


@cache
def _triton() -> ModuleType | None:
    if os.environ.get("ROPEWALK_KERNELS") == "torch" or find_spec("triton") is None:
        return None
    from ropewalk.kernels.triton import embedding

    return embedding


def _changed(tensor: Tensor) -> None:
    """Tell autograd, which sees nothing of what compiled code writes."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)


def _fake_lookup(ids: Tensor, table: Tensor, *_: object) -> Tensor:
    return table.new_empty((*ids.shape, table.shape[1]))


def _fake_gradient(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> Tensor:
    del ids, padding_idx, scale
    return grad.new_empty((rows, grad.shape[-1]), dtype=dtype)


def _fake_gradient_rows(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    del rows, padding_idx, scale
    touched = torch.library.get_ctx().new_dynamic_size()
    values = grad.new_empty((touched, grad.shape[-1]), dtype=dtype)
    return ids.new_empty((touched,), dtype=torch.int64), values


def _fake_nothing(*_: object) -> None:
    return None


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """What the backward pass of a lookup needs: ids and sizes, never the table's values."""
    del output
    ids, table, ctx.scale, added, position_ids, ctx.padding_idx, ctx.added_padding, ctx.sparse = (
        inputs
    )
    ctx.save_for_backward(ids, position_ids)
    ctx.rows, ctx.dtype = table.shape[0], table.dtype
    ctx.added = None if added is None else (added.shape, added.dtype)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of table and added rows, each where it is asked for."""
    ids, position_ids = ctx.saved_tensors
    of_table = of_added = None
    if ctx.needs_input_grad[1]:
        how = (ids, ctx.rows, ctx.padding_idx, ctx.scale, ctx.dtype)
        of_table = _sparse(grad, *how) if ctx.sparse else OPERATORS.embedding_gradient(grad, *how)
    if ctx.needs_input_grad[3]:
        shape, dtype = ctx.added
        if position_ids is None:
            of_added = grad.to(reference.wide(grad.dtype)).sum_to_size(shape).to(dtype)
        else:
            places = position_ids.expand(ids.shape)
            of_added = OPERATORS.embedding_gradient(
                grad, places, shape[0], ctx.added_padding, 1.0, dtype
            )
    return None, of_table, None, of_added, None, None, None, None


def _sparse(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> Tensor:
    """The table's gradient as a coalesced sparse tensor (rows, d)."""
    touched, values = OPERATORS.embedding_gradient_rows(grad, ids, rows, padding_idx, scale, dtype)
    return torch.sparse_coo_tensor(
        touched.unsqueeze(0),
        values,
        (rows, grad.shape[-1]),
        is_coalesced=True,
        check_invariants=False,
    )


def _keep_gradient(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """What a second backward pass needs."""
    del output
    grad, ids, _, ctx.padding_idx, ctx.scale, _ = inputs
    ctx.save_for_backward(ids)
    ctx.dtype = grad.dtype


def _backward_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """A sum over tokens is linear: its gradient is the lookup, with nothing for padding."""
    (ids,) = ctx.saved_tensors
    rows = OPERATORS.embedding_lookup(ids, grad, ctx.scale, None, None, -1, -1, False)
    kept = (ids != ctx.padding_idx).unsqueeze(-1)
    return (rows * kept).to(ctx.dtype), None, None, None, None, None


def _vmap_lookup(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
    """One lookup for each of a mapped dimension, stacked; the tables may be mapped as well."""
    slices = (
        [
            arg if dim is None else arg.select(dim, index)
            for arg, dim in zip(args, in_dims, strict=True)
        ]
        for index in range(info.batch_size)
    )
    return torch.stack([OPERATORS.embedding_lookup(*each) for each in slices]), 0


OPERATORS = torch.ops.ropewalk
"""Where the operators defined here are called from."""

for _schema in _SCHEMAS:
    _LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
for _name, _run, _fake in (
    ("embedding_lookup", _lookup, _fake_lookup),
    ("embedding_lookup_out", _lookup_out, _fake_nothing),
    ("embedding_gradient", _gradient, _fake_gradient),
    ("embedding_gradient_rows", _gradient_rows, _fake_gradient_rows),
    ("embedding_sgd_", _sgd_, _fake_nothing),
):
    _LIBRARY.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"ropewalk::{_name}", _fake, lib=_LIBRARY)
torch.library.register_autograd(
    "ropewalk::embedding_lookup", _backward, setup_context=_keep, lib=_LIBRARY
)
torch.library.register_autograd(
    "ropewalk::embedding_gradient",
    _backward_gradient,
    setup_context=_keep_gradient,
    lib=_LIBRARY,
)
torch.library.register_vmap("ropewalk::embedding_lookup", _vmap_lookup, lib=_LIBRARY)
