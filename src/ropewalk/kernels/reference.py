"""The kernels in plain torch: what compiled code is held against, and what runs without it.

That is on other devices, for tables whose channels are not adjacent, for fp64 token vectors, and
in an installation without compiled kernels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.kernels.bounds import check_position_rows, check_token_rows
from ropewalk.rope.spec import Layout


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """The first 2 * pairs channels of `x` (batch, heads, sequence, head_dim) rotated.

    `cos`, `sin`: (sequence, pairs) or (batch, sequence, pairs). A pair (a, b) becomes
    (a cos - b sin, b cos + a sin): products and sums alone, in fp32 at least and each rounded, so
    autocast has nothing to lower; the result is rounded once to the dtype that came in. Channels
    beyond pass unchanged. Same shape and dtype as `x`. Differentiable in everything.
    """
    cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    width = 2 * cos.shape[-1]
    pairs = x[..., :width].to(torch.promote_types(x.dtype, cos.dtype))
    if layout == "half":
        first, second = pairs.chunk(2, dim=-1)
        rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    else:
        first, second = pairs.unflatten(-1, (-1, 2)).unbind(-1)
        both = (first * cos - second * sin, second * cos + first * sin)
        rotated = torch.stack(both, dim=-1).flatten(-2)
    rotated = rotated.to(x.dtype)
    if width == x.shape[-1]:
        return rotated
    return torch.cat((rotated, x[..., width:]), dim=-1)


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
) -> Tensor:
    """Rows of `ids` (n,) or (batch, sequence) times `scale` plus the added rows: (*ids.shape, d).

    `table` (rows, d); added rows (positions, d) with position ids, or ready ones (..., sequence,
    d). The product is rounded to the table's dtype, then the sum, each from fp32 at least. The
    last two name rows that take no gradient, -1 for no such row. Raises RowError for an id,
    PositionError for a position, without a row.
    """
    check_token_rows(ids, table.shape[0])
    padding = padding_idx if padding_idx >= 0 else None
    rows = functional.embedding(ids.long(), table, padding)
    if scale != 1.0:
        rows = rows * scale
    if added is None:
        return rows
    if position_ids is not None:
        check_position_rows(position_ids, added.shape[0])
        padding = added_padding_idx if added_padding_idx >= 0 else None
        added = functional.embedding(position_ids.long(), added, padding)
    sums = wide(table.dtype)
    return (rows.to(sums) + added.to(sums)).to(table.dtype)


def gradient(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> Tensor:
    """The gradient of a whole table, (rows, d) in `dtype`: each row the sum over its tokens.

    `grad` (*ids.shape, d), for ids that have been checked. Summed in fp32 at least and rounded
    once, where torch's own would add halves one by one: 1 + 1/256 stays 1 in bfloat16. The row
    `padding_idx` gets nothing, -1 for no such row.
    """
    scaled = grad.to(wide(grad.dtype)) * scale
    summed: Tensor = torch.ops.aten.embedding_dense_backward(
        scaled, ids.long(), rows, padding_idx, False
    )
    return summed.to(dtype)
