"""The device's part of the embedding kernels: rows gathered, and gradients summed by row."""

from __future__ import annotations

import triton
from triton import language as tl
from triton.language import constexpr, tensor


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


@triton.jit
def sum_segment(
    gradient: tensor, order: tensor, ends: tensor, out: tensor, scale: tensor, g_row: tensor,
    width: tensor, width_block: constexpr, at_once: constexpr,
) -> None:  # fmt: skip
    """Sum the gradient rows order[ends[n - 1] : ends[n]], each times the scale, for segment n.

    `at_once` rows are under way together, and they are summed in the order of the tokens, so
    that the result is the same every time.
    """
    width_blocks = (width + width_block - 1) // width_block
    program = tl.program_id(0)
    segment = (program // width_blocks).to(tl.int64)
    channel = (program % width_blocks) * width_block + tl.arange(0, width_block)
    inside = channel < width
    start = tl.load(ends + segment - 1, mask=segment > 0, other=0)
    end = tl.load(ends + segment)
    total = tl.full((width_block,), 0.0, tl.float32)
    for step in range(0, end - start, at_once):
        for more in tl.static_range(at_once):
            place = start + step + more
            row = tl.load(order + place, mask=place < end, other=0).to(tl.int64)
            kept = inside & ((place + 0 * channel) < end)
            x = tl.load(gradient + row * g_row + channel, mask=kept, other=0.0)
            total += x.to(tl.float32) * scale
    tl.store(out + segment * width + channel, total.to(out.dtype.element_ty), mask=inside)
