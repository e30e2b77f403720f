"""Token embedding on a GPU: rows gathered, scaled and placed in one pass over memory, and the
gradient of a table as the rows that were touched.

The gather rounds where separate torch operators would: after the scale, and after the sum with
the position's row, each once to the table's dtype, with fp32 between.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from ropewalk.errors import PositionError, RowError, TensorError
from ropewalk.kernels.triton.device import on_device_of
from ropewalk.kernels.triton.lookup_block import lookup_block, sum_segment

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""What may name a row."""

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
"""What tables and gradients are in; sums are in fp32."""

PIECE = 256
"""How many gradient rows one program sums; a token more frequent than that is shared out."""


def serves(*tensors: Tensor | None) -> bool:
    """Whether these kernels take such tables or gradients: fp32, bf16 or fp16 on a GPU."""
    return all(x is None or (x.is_cuda and x.dtype in FLOATS) for x in tensors)


def lookup(
    ids: Tensor,
    table: Tensor,
    scale: float = 1.0,
    added: Tensor | None = None,
    position_ids: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """round(table[ids] * scale) + added[position_ids]: (*ids.shape, d_model), dtype of `table`.

    `ids`: integers (batch, sequence) or (sequence,). `table`: (rows, d_model), fp32, bf16 or
    fp16, any strides. `scale` is used in fp32; for a model that rounds the factor itself, give
    the rounded one. `added`: (positions, d_model), any of these dtypes, with `position_ids`
    integers of the shape of `ids`, or (sequence,) or (1, sequence) for all rows; without
    `position_ids` it is added as it is and broadcasts to the result. `out` takes the result where
    it is given, contiguous and of its shape and dtype. Ids that have no row fail an assert on the
    device, and nothing beyond a table is read; nothing here waits for the device.

    Raises TensorError for ids that are no integers and for other tables.
    """
    _check_ids("token ids", ids)
    _check_table("table", table)
    if out is None:
        out = torch.empty((*ids.shape, table.shape[1]), dtype=table.dtype, device=table.device)
    _check_out(ids, table, out)
    places, at = table, ids
    if added is not None:
        places, at = _placed(ids, out, added, position_ids)
    if not out.numel():
        return out
    if not len(table) or not len(places):
        raise RowError(f"{ids.numel()} ids were given, and a table has no rows")
    ids, at = ids.contiguous(), at.contiguous()
    named = position_ids is not None
    width_block = _width_block(table.shape[1])
    tokens_block = max(1, 8192 // table.element_size() // width_block)
    tokens_block = min(tokens_block, triton.next_power_of_2(ids.numel()))
    programs = triton.cdiv(ids.numel(), tokens_block) * triton.cdiv(table.shape[1], width_block)
    with on_device_of(table):
        lookup_block[(programs,)](
            ids, table, places, at, out, scale, ids.numel(),
            at.numel() if named else len(places), len(table), len(places), *table.stride(),
            *places.stride(), table.shape[1],
            scaled=scale != 1.0, placed=added is not None, named=named,
            tokens_block=tokens_block, width_block=width_block,
            num_warps=4, enable_fp_fusion=False, debug=True, sanitize_overflow=False,
        )  # fmt: skip
    return out


def gradient_rows(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The gradient of the table of `rows` behind `lookup`: which were touched, and their sums.

    `ids`: integers of any shape; `grad`: (*ids.shape, d_model), fp32, bf16 or fp16. Returns
    (touched,) int64, ascending, each once, and (touched, d_model) in `dtype`: products with
    `scale` summed in fp32 in the order of the tokens and rounded once, so the same every time.
    The row `padding_idx` takes no gradient; -1 for no such row. Waits for the device, to learn
    how many rows there are; an id that is none of them fails an assert there.

    Raises TensorError for ids that are no integers, and for gradients that do not fit.
    """
    _check_ids("token ids", ids)
    if grad.dtype not in FLOATS or grad.shape[:-1] != ids.shape or grad.dim() < 2:
        raise TensorError(
            f"the gradient is {grad.dtype} {tuple(grad.shape)} for ids {tuple(ids.shape)}; give "
            "(*ids.shape, d_model) in float32, bfloat16 or float16"
        )
    flat = ids.reshape(-1).long()
    flat_grad = grad.reshape(-1, grad.shape[-1])
    kept = (flat != padding_idx).nonzero().squeeze(1)
    ordered, by_id = flat[kept].sort(stable=True)
    order = kept[by_id]
    if len(ordered):
        there = (ordered[0] >= 0) & (ordered[-1] < rows)
        torch._assert_async(there, f"token ids must be 0 to {rows - 1}, the rows of the table")
    touched, counts = torch.unique_consecutive(ordered, return_counts=True)
    ends = counts.cumsum(0)
    if not len(counts) or int(counts.max()) <= PIECE:
        return touched, _sum_rows(flat_grad, order, ends, scale, dtype)
    piece_ends, ends = _pieces(counts, ends)
    pieces = _sum_rows(flat_grad, order, piece_ends, scale, torch.float32)
    order = torch.arange(len(pieces), device=pieces.device)
    return touched, _sum_rows(pieces, order, ends, 1.0, dtype)


def gradient(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> Tensor:
    """As `gradient_rows`, as a whole table (rows, d_model), zero where nothing was touched."""
    touched, values = gradient_rows(grad, ids, rows, padding_idx, scale, dtype)
    whole = torch.zeros((rows, grad.shape[-1]), dtype=dtype, device=grad.device)
    return whole.index_copy_(0, touched, values)


def sgd_(
    table: Tensor, ids: Tensor, grad: Tensor, lr: float, scale: float, padding_idx: int
) -> None:
    """One step of plain SGD on the rows of `ids`, in place; `grad` (*ids.shape, d_model)."""
    touched, values = gradient_rows(grad, ids, len(table), padding_idx, scale, table.dtype)
    table.index_copy_(0, touched, table[touched].add_(values, alpha=-lr))


def _sum_rows(
    rows: Tensor, order: Tensor, ends: Tensor, scale: float, dtype: torch.dtype
) -> Tensor:
    """Sums of scale * rows[order[ends[n - 1] : ends[n]]]: (segments, width)."""
    width = rows.shape[1]
    out = torch.empty((len(ends), width), dtype=dtype, device=rows.device)
    if not out.numel():
        return out
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    width_block = _width_block(width)
    with on_device_of(rows):
        sum_segment[(len(ends) * triton.cdiv(width, width_block),)](
            rows, order, ends, out, scale, rows.stride(0), width,
            width_block=width_block, at_once=4, num_warps=4, enable_fp_fusion=False,
        )  # fmt: skip
    return out


def _pieces(counts: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Segments cut into pieces of PIECE rows: where each piece ends, and each segment's last."""
    pieces = (counts + PIECE - 1) // PIECE
    last = pieces.cumsum(0)
    owner = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), pieces)
    number = torch.arange(len(owner), device=counts.device) - (last - pieces)[owner]
    start = (ends - counts)[owner] + number * PIECE
    return torch.minimum(start + PIECE, ends[owner]), last


def _width_block(width: int) -> int:
    """How many channels a program takes: a power of two up to 1024.

    The largest that leaves at most an eighth of its threads idle at the end of a row, but 128
    where none does, and the next power of two for rows narrower than that.
    """
    block: int = min(1024, triton.next_power_of_2(width))
    while block > 128 and triton.cdiv(width, block) * block > width * 9 // 8:
        block //= 2
    return block


def _check_ids(what: str, ids: Tensor) -> None:
    """Refuse what is no tensor of integers. Raises TensorError."""
    if ids.dtype not in INTEGERS:
        raise TensorError(f"{what} have dtype {ids.dtype}; pass an int64 tensor")


def _check_table(what: str, table: Tensor) -> None:
    """Refuse what is no table of a dtype that is gathered from. Raises UsageError."""
    if table.dim() != 2 or table.dtype not in FLOATS:
        raise TensorError(
            f"{what} is {table.dtype} {tuple(table.shape)}; (rows, d_model) in float32, bfloat16 "
            "or float16 can be looked up"
        )


def _check_out(ids: Tensor, table: Tensor, out: Tensor) -> None:
    """Refuse a result that cannot be written in one run. Raises UsageError."""
    shape = (*ids.shape, table.shape[1])
    if out.shape != shape or out.dtype != table.dtype or not out.is_contiguous():
        raise TensorError(
            f"out is {out.dtype} {tuple(out.shape)} with strides {out.stride()}; it has to be "
            f"{table.dtype} {shape}, contiguous"
        )


def _placed(
    ids: Tensor, out: Tensor, added: Tensor, position_ids: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The rows to add, two-dimensional, and the positions that name them (or the ids, unused).

    Raises PositionError for positions, TensorError for rows, that do not go with the tokens.
    """
    if added.shape[-1:] != out.shape[-1:]:
        raise TensorError(
            f"what is added has shape {tuple(added.shape)} and the table {out.shape[-1]} "
            "channels; they are added, so both have as many"
        )
    if position_ids is None:
        if added.dim() > 2 and added[..., 0].numel() != ids.shape[-1]:
            added = added.expand(out.shape)
        elif added.numel() != ids.shape[-1] * out.shape[-1]:
            added = added.expand(*out.shape[-2:])
        rows = added.reshape(-1, out.shape[-1])
        _check_table("added", rows)
        return rows, ids
    _check_ids("position_ids", position_ids)
    _check_table("added", added)
    tail = ids.shape[-1:]
    if position_ids.shape not in (ids.shape, tail, (1, *tail)):
        raise PositionError(
            f"position_ids have shape {tuple(position_ids.shape)} for ids {tuple(ids.shape)}; give "
            "every token one, or (sequence,) for all rows"
        )
    return added, position_ids
