"""Token embedding on a GPU: rows gathered, scaled and placed in one pass over memory.

The gather rounds where separate torch operators would: after the scale, and after the sum with
the position's row, each once to the table's dtype, with fp32 between.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
import triton
from torch import Tensor
from triton import language as tl
from triton.language import constexpr, tensor

from ropewalk.errors import PositionError, RowError, TensorError
from ropewalk.kernels.bounds import INTEGERS

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
"""What tables are in; sums are in fp32."""


@triton.jit(do_not_specialize=["count", "length", "position_rows"])
def lookup_block(
    ids: tensor, table: tensor, added: tensor, position_ids: tensor, out: tensor, scale: tensor,
    count: tensor, length: tensor, rows: tensor, position_rows: tensor, t_row: tensor,
    t_channel: tensor, a_row: tensor, a_channel: tensor, width: tensor, scaled: constexpr,
    placed: constexpr, named: constexpr, tokens_block: constexpr, width_block: constexpr,
) -> None:  # fmt: skip
    """A block of tokens x channels; programs run over channels first.

    Token i takes entry i modulo `length` of `position_ids`, and of `added` itself where positions
    are not `named`. An id without a row fails an assert, and nothing is read for it.
    """
    width_blocks = (width + width_block - 1) // width_block
    program = tl.program_id(0)
    token = (program // width_blocks).to(tl.int64) * tokens_block + tl.arange(0, tokens_block)
    channel = (program % width_blocks) * width_block + tl.arange(0, width_block)
    there = token < count
    along = channel.to(tl.int64)[None, :]
    row = tl.load(ids + token, mask=there, other=0).to(tl.int64)
    known = (row >= 0) & (row < rows)
    tl.device_assert(known | (token >= count), "a token id has no row in the table")
    kept = (there & known)[:, None] & (channel < width)[None, :]
    place = row[:, None] * t_row + along * t_channel
    x = tl.load(table + place, mask=kept, other=0.0)
    kind = x.dtype
    if placed:
        position = token % length
        if named:
            position = tl.load(position_ids + position, mask=there, other=0).to(tl.int64)
            known = (position >= 0) & (position < position_rows)
            tl.device_assert(known | (token >= count), "a position has no row in its table")
            kept = kept & known[:, None]
        place = position[:, None] * a_row + along * a_channel
        more = tl.load(added + place, mask=kept, other=0.0).to(tl.float32)
    if scaled:
        x = (x.to(tl.float32) * scale).to(kind)
    if placed:
        x = (x.to(tl.float32) + more).to(kind)
    place = token[:, None] * width + along
    tl.store(out + place, x, mask=there[:, None] & (channel < width)[None, :])


def serves(*tensors: Tensor | None) -> bool:
    """Whether these kernels take such tables: fp32, bf16 or fp16 on a GPU."""
    return all(x is None or (x.is_cuda and x.dtype in FLOATS) for x in tensors)


def lookup(
    ids: Tensor,
    table: Tensor,
    scale: float = 1.0,
    added: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Tensor:
    """round(table[ids] * scale) + added[position_ids]: (*ids.shape, d_model), dtype of `table`.

    `ids`: integers (batch, sequence) or (sequence,). `table`: (rows, d_model), fp32, bf16 or
    fp16, any strides. `scale` is used in fp32; for a model that rounds the factor itself, give
    the rounded one. `added`: (positions, d_model), any of these dtypes, with `position_ids`
    integers of the shape of `ids`, or (sequence,) or (1, sequence) for all rows; without
    `position_ids` it is added as it is and broadcasts to the result. Ids that have no row fail an
    assert on the device, and nothing beyond a table is read; nothing here waits for the device.

    Raises TensorError for ids that are no integers and for other tables.
    """
    _check_ids("token ids", ids)
    _check_table("table", table)
    out = torch.empty((*ids.shape, table.shape[1]), dtype=table.dtype, device=table.device)
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
    with torch.cuda.device(table.device) if table.is_cuda else nullcontext():
        lookup_block[(programs,)](
            ids, table, places, at, out, scale, ids.numel(),
            at.numel() if named else len(places), len(table), len(places), *table.stride(),
            *places.stride(), table.shape[1],
            scaled=scale != 1.0, placed=added is not None, named=named,
            tokens_block=tokens_block, width_block=width_block,
            num_warps=4, enable_fp_fusion=False, debug=True, sanitize_overflow=False,
        )  # fmt: skip
    return out


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
    """Refuse what is no table of a dtype that is gathered from. Raises TensorError."""
    if table.dim() != 2 or table.dtype not in FLOATS:
        raise TensorError(
            f"{what} is {table.dtype} {tuple(table.shape)}; (rows, d_model) in float32, bfloat16 "
            "or float16 can be looked up"
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
