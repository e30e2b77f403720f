"""Token vectors and their gradients in plain torch: what the kernels are held against.

Also what runs where no kernel serves: other devices, fp64, tables whose channels are not
adjacent, and an installation without compiled kernels. Shapes: ids (n,) or (batch, sequence),
table (rows, d), added rows (positions, d) with position ids, or ready ones (..., sequence, d).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.kernels.bounds import check_position_rows, check_token_rows


def wide(dtype: torch.dtype) -> torch.dtype:
    """What sums are taken in: fp32 for halves, otherwise the dtype itself."""
    return torch.promote_types(dtype, torch.float32)


def lookup(
    ids: Tensor,
    table: Tensor,
    scale: float,
    added: Tensor | None,
    position_ids: Tensor | None,
    padding_idx: int = -1,
    added_padding_idx: int = -1,
    sparse: bool = False,
) -> Tensor:
    """Rows of `ids` times `scale` plus the added rows: (*ids.shape, d) in the table's dtype.

    The product is rounded to the table's dtype, then the sum, each from fp32 at least. The last
    three concern the gradient: rows that take none, -1 for no such row, and its form. Raises
    RowError for an id, PositionError for a position, without a row.
    """
    check_token_rows(ids, table.shape[0])
    padding = padding_idx if padding_idx >= 0 else None
    rows = torch.nn.functional.embedding(ids.long(), table, padding, sparse=sparse)
    if scale != 1.0:
        rows = rows * scale
    if added is None:
        return rows
    if position_ids is not None:
        check_position_rows(position_ids, added.shape[0])
        padding = added_padding_idx if added_padding_idx >= 0 else None
        added = torch.nn.functional.embedding(position_ids.long(), added, padding)
    sums = wide(table.dtype)
    return (rows.to(sums) + added.to(sums)).to(table.dtype)


def gradient(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> Tensor:
    """The gradient of a whole table, (rows, d) in `dtype`: each row the sum over its tokens.

    `grad` (*ids.shape, d). Summed in fp32 at least and rounded once; the row `padding_idx` gets
    nothing, -1 for no such row. Raises RowError for an id without a row.
    """
    check_token_rows(ids, rows)
    scaled = grad.to(wide(grad.dtype)) * scale
    summed: Tensor = torch.ops.aten.embedding_dense_backward(
        scaled, ids.long(), rows, padding_idx, False
    )
    return summed.to(dtype)


def gradient_rows(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """As `gradient`, only the rows that were looked up: their ids (m,) ascending, and (m, d)."""
    check_token_rows(ids, rows)
    kept = ids.flatten() != padding_idx
    touched, place = torch.unique(ids.long().flatten()[kept], return_inverse=True)
    flat = grad.reshape(-1, grad.shape[-1])[kept]
    return touched, gradient(flat, place, touched.shape[0], -1, scale, dtype)


def sgd_(
    table: Tensor, ids: Tensor, grad: Tensor, lr: float, scale: float, padding_idx: int
) -> None:
    """One step of plain SGD on the rows of `ids`, in place; `grad` (*ids.shape, d)."""
    touched, values = gradient_rows(grad, ids, table.shape[0], padding_idx, scale, table.dtype)
    table.index_copy_(0, touched, table[touched].add_(values, alpha=-lr))
