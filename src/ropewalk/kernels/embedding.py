"""Token vectors in one pass, and steps on the rows that were looked up.

`lookup` gathers, scales and adds what position adds; its gradient may be as sparse as the ids.
`sgd_rows_` is a step of plain SGD that reads and writes those rows alone. Where no compiled
kernel serves a tensor, plain torch gives the same results and errors (`embedding_reference`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ropewalk.errors import PositionError, RowError, TensorError, UsageError
from ropewalk.kernels import embedding_reference as reference
from ropewalk.kernels.bounds import INTEGERS, check_token_ids
from ropewalk.kernels.embedding_ops import OPERATORS


def lookup(
    ids: Tensor,
    table: Tensor,
    *,
    scale: float | None = None,
    added: Tensor | None = None,
    position_ids: Tensor | None = None,
    padding_idx: int | None = None,
    added_padding_idx: int | None = None,
    sparse: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Rows of `table` (rows, d) at `ids`, times `scale`, plus what is added: (*ids.shape, d).

    `ids`: integers (sequence,) or (batch, sequence). `added`: ready rows (sequence, d) or
    (*ids.shape, d), or with `position_ids`, (sequence,) or of ids' shape, a table (positions,
    d). The dtype is the table's; the product is rounded to it, then the sum, each from fp32 at
    least. A `scale` that is itself to be rounded, as Gemma's, is given rounded.

    Differentiable in `table` and `added`. Rows `padding_idx` and `added_padding_idx` take no
    gradient. With `sparse` the table's gradient is a sparse tensor of the rows that were looked
    up, each once, ascending: for torch.optim.SparseAdam or SGD, and for tables that no output
    layer shares.

    `out`, contiguous and of the result's shape and dtype, is filled and returned: for inference.
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
    if out is None:
        given = (ids, table, factor, added, position_ids, padding, added_padding, sparse)
        if _is_transformed(table) or _is_transformed(added):
            return reference.lookup(*given)
        result: Tensor = OPERATORS.embedding_lookup(*given)
        return result
    _check_out(out, ids, table, added)
    OPERATORS.embedding_lookup_out(ids, table, factor, added, position_ids, out)
    return out


def sgd_rows_(
    table: Tensor,
    ids: Tensor,
    grad: Tensor,
    lr: float,
    *,
    scale: float | None = None,
    padding_idx: int | None = None,
) -> Tensor:
    """A step of plain SGD on the rows of `table` (rows, d) that `ids` name, in place.

    `grad` (*ids.shape, d) is the gradient of what `lookup` gave with this `scale`. Tokens of one
    row are summed in fp32 at least and in their own order; the sum is rounded to the table's
    dtype and subtracted times `lr`. Equal to torch.optim.SGD without momentum or weight decay on
    the dense gradient; rows that no id names are neither read nor written. Returns `table`.

    Raises RowError for an id without a row, with its place, and UsageError or TensorError for
    arguments that do not fit; nothing has changed then.
    """
    _check_table(table)
    check_token_ids(ids)
    if grad.shape != (*ids.shape, table.shape[1]) or not grad.is_floating_point():
        raise TensorError(
            f"grad is {tuple(grad.shape)} of {grad.dtype}; for ids {tuple(ids.shape)} and a table "
            f"of width {table.shape[1]} it is {(*ids.shape, table.shape[1])}, floating point"
        )
    if not (math.isfinite(lr) and lr >= 0.0):
        raise UsageError(f"lr is {lr}; a learning rate is a number of 0 or more")
    factor = 1.0 if scale is None else float(scale)
    padding = _padding(padding_idx, table, "padding_idx")
    with torch.no_grad():
        OPERATORS.embedding_sgd_(table, ids, grad, lr, factor, padding)
    return table


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


def _check_out(out: Tensor, ids: Tensor, table: Tensor, added: Tensor | None) -> None:
    """Refuse a buffer of another form, and a gradient that nothing could flow through."""
    shape = (*ids.shape, table.shape[1])
    if tuple(out.shape) != shape or out.dtype != table.dtype or not out.is_contiguous():
        raise TensorError(
            f"out is {tuple(out.shape)} of {out.dtype}; it must be {shape} of {table.dtype}, "
            "contiguous"
        )
    wanted = table.requires_grad or (added is not None and added.requires_grad)
    if torch.is_grad_enabled() and (wanted or out.requires_grad):
        raise UsageError(
            "out= takes no part in autograd; call under torch.no_grad(), or leave out= away"
        )
