"""Token vectors in one pass: rows gathered, scaled, and what position adds put on them.

`lookup` is the way in; `ropewalk::embedding_lookup` is what torch's compiler and autograd see of
it, differentiable in the table and in what is added. It runs in `cpu.lookup` or, on a GPU with
Triton, in `triton.lookup` where these serve the tensors, and otherwise in plain torch, with the
same results and errors (`reference`). Gradients are torch's.
"""

from __future__ import annotations

import math
import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ropewalk.errors import PositionError, RowError, TensorError, UsageError
from ropewalk.kernels import reference
from ropewalk.kernels.bounds import (
    INTEGERS,
    check_position_rows,
    check_token_ids,
    check_token_rows,
)
from ropewalk.kernels.cpu import lookup as cpu


def lookup(
    ids: Tensor,
    table: Tensor,
    *,
    scale: float | None = None,
    added: Tensor | None = None,
    position_ids: Tensor | None = None,
    padding_idx: int | None = None,
    added_padding_idx: int | None = None,
) -> Tensor:
    """Rows of `table` (rows, d) at `ids`, times `scale`, plus what is added: (*ids.shape, d).

    `ids`: integers (sequence,) or (batch, sequence). `added`: ready rows (sequence, d) or
    (*ids.shape, d), or with `position_ids`, (sequence,) or of ids' shape, a table (positions,
    d). The dtype is the table's; the product is rounded to it, then the sum, each from fp32 at
    least. A `scale` that is itself to be rounded, as Gemma's, is given rounded.

    Differentiable in `table` and `added`; tokens of one row are summed in fp32 at least. Rows
    `padding_idx` and `added_padding_idx` take no gradient.

    Raises RowError or PositionError for an id or a position without a row, with its place, and
    UsageError or TensorError for arguments that do not fit one another.
    """
    _check_table(table)
    check_token_ids(ids)
    factor = 1.0 if scale is None else float(scale)
    if not math.isfinite(factor):
        raise UsageError(f"scale is {scale}; it must be a finite number, or None for no scale")
    _check_added(ids, table, added, position_ids)
    padding = _padding(padding_idx, table, "padding_idx")
    added_padding = _padding(added_padding_idx, added, "added_padding_idx")
    given = (ids, table, factor, added, position_ids, padding, added_padding)
    if _is_transformed(table) or _is_transformed(added):
        return reference.lookup(*given)
    result: Tensor = OPERATOR(*given)
    return result


def _is_transformed(tensor: Tensor | None) -> bool:
    """Whether torch.func differentiates by it, which takes no operators defined in Python."""
    if tensor is None or torch.compiler.is_compiling():
        return False
    return bool(torch._C._functorch.is_gradtrackingtensor(tensor))


def _check_table(table: Tensor) -> None:
    """Refuse what is no table (rows, d) of floating point."""
    if table.dim() != 2 or not table.is_floating_point():
        raise TensorError(
            f"the table is {tuple(table.shape)} of {table.dtype}; it must be (rows, d), floating "
            "point"
        )


def _check_added(
    ids: Tensor, table: Tensor, added: Tensor | None, position_ids: Tensor | None
) -> None:
    """Refuse added rows, or a table of them with its positions, that do not fit the tokens."""
    width = table.shape[1]
    if added is None:
        if position_ids is not None:
            raise UsageError("position_ids is given without `added`, the table it names rows of")
        return
    if not added.is_floating_point():
        raise TensorError(f"added has dtype {added.dtype}; what is added is floating point")
    if position_ids is None:
        allowed = ((ids.shape[-1], width), (1, ids.shape[-1], width), (*ids.shape, width))
        if tuple(added.shape) not in (allowed if ids.dim() == 2 else allowed[:1]):
            raise TensorError(
                f"added has shape {tuple(added.shape)}; for ids {tuple(ids.shape)} ready rows are "
                f"{allowed[0]} or {allowed[-1]}; a table of positions takes position_ids"
            )
        return
    if added.dim() != 2 or added.shape[1] != width:
        raise TensorError(
            f"added has shape {tuple(added.shape)}; with position_ids it is a table (positions, "
            f"{width})"
        )
    if position_ids.dtype not in INTEGERS:
        raise TensorError(
            f"position_ids has dtype {position_ids.dtype}; positions are integers: pass an int64 "
            "tensor"
        )
    shapes = (ids.shape[-1:], (1, *ids.shape[-1:]), ids.shape)
    if position_ids.shape not in (shapes if ids.dim() == 2 else shapes[:1]):
        raise PositionError(
            f"position_ids has shape {tuple(position_ids.shape)}; for ids {tuple(ids.shape)} it "
            f"is {tuple(ids.shape[-1:])} or {tuple(ids.shape)}"
        )


def _padding(index: int | None, table: Tensor | None, name: str) -> int:
    """The row that takes no gradient, -1 for none. Raises RowError for one not there."""
    if index is None:
        return -1
    rows = 0 if table is None else table.shape[0]
    if not 0 <= index < rows:
        raise RowError(f"{name} is {index}; the table has rows 0 to {rows - 1}")
    return index


_LIBRARY = torch.library.Library("ropewalk", "FRAGMENT")
_LIBRARY.define(
    "embedding_lookup(Tensor ids, Tensor table, float scale, Tensor? added, "
    "Tensor? position_ids, int padding_idx, int added_padding_idx) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
OPERATOR = torch.ops.ropewalk.embedding_lookup
"""What torch calls; see `reference.lookup` for its arguments."""


def _run(
    ids: Tensor,
    table: Tensor,
    scale: float,
    added: Tensor | None,
    position_ids: Tensor | None,
    *padding: int,
) -> Tensor:
    """On the best path; which rows take no gradient does not matter here."""
    del padding
    if cpu.serves(ids, table, added, position_ids):
        return cpu.lookup(ids, table, scale, added, position_ids)
    if gpu := _gpu(table, added):
        check_token_rows(ids, table.shape[0])
        if added is not None and position_ids is not None:
            check_position_rows(position_ids, added.shape[0])
        rows: Tensor = gpu.lookup(ids, table, scale, added, position_ids)
        return rows
    return reference.lookup(ids, table, scale, added, position_ids)


def _gpu(*tensors: Tensor | None) -> ModuleType | None:
    """The Triton kernels where they serve tables like these, None elsewhere.

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
    from ropewalk.kernels.triton import lookup

    return lookup


def _fake(ids: Tensor, table: Tensor, *_: object) -> Tensor:
    return table.new_empty((*ids.shape, table.shape[1]))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """What the backward pass of a lookup needs: ids and sizes, never the table's values."""
    del output
    ids, table, ctx.scale, added, position_ids, ctx.padding_idx, ctx.added_padding = inputs
    ctx.save_for_backward(ids, position_ids)
    ctx.rows, ctx.dtype = table.shape[0], table.dtype
    ctx.added = None if added is None else (added.shape, added.dtype)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of table and added rows, each where it is asked for."""
    ids, position_ids = ctx.saved_tensors
    of_table = of_added = None
    if ctx.needs_input_grad[1]:
        of_table = reference.gradient(grad, ids, ctx.rows, ctx.padding_idx, ctx.scale, ctx.dtype)
    if ctx.needs_input_grad[3]:
        shape, dtype = ctx.added
        if position_ids is None:
            of_added = grad.to(reference.wide(grad.dtype)).sum_to_size(shape).to(dtype)
        else:
            places = position_ids.expand(ids.shape)
            of_added = reference.gradient(grad, places, shape[0], ctx.added_padding, 1.0, dtype)
    return None, of_table, None, of_added, None, None, None


def _vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
    """One lookup for each of a mapped dimension, stacked; the tables may be mapped as well."""
    slices = (
        [
            arg if dim is None else arg.select(dim, index)
            for arg, dim in zip(args, in_dims, strict=True)
        ]
        for index in range(info.batch_size)
    )
    return torch.stack([OPERATOR(*each) for each in slices]), 0


_LIBRARY.impl("embedding_lookup", _run, "CompositeExplicitAutograd")
_NAME = "ropewalk::embedding_lookup"
torch.library.register_fake(_NAME, _fake, lib=_LIBRARY)
torch.library.register_autograd(_NAME, _backward, setup_context=_keep, lib=_LIBRARY)
torch.library.register_vmap(_NAME, _vmap, lib=_LIBRARY)
