"""Rotary on a GPU: queries and keys rotated in one launch, at the speed of memory.

A program rotates a block of heads x tokens. It reads the table's rows of its tokens once for all
of its heads, and has read its whole block before it writes, so many loads are in flight and a
block may be written onto itself. Both layouts read runs of channels: "interleaved" reads pairs
as they lie and parts them in registers.

Products are rounded before they are added (no fused multiply-add), as separate torch operators
round them, so that results are those of `ropewalk.kernels.reference` bit for bit. Offsets are
64-bit, so tensors may have more than 2^31 elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
import triton
from torch import Tensor
from triton import language as tl
from triton.language import constexpr, tensor

from ropewalk.rope.spec import Layout
from ropewalk.short import short


@triton.jit
def rotate_pairs(
    first: tensor, second: tensor, cos: tensor, sin: tensor, inverse: constexpr,
) -> tuple[tensor, tensor]:  # fmt: skip
    """(a cos - b sin, b cos + a sin), or with the angle negated."""
    if inverse:
        return first * cos + second * sin, second * cos - first * sin
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def rotate_block(
    x: tensor, out: tensor, cos: tensor, sin: tensor, program: tensor, heads: tensor,
    length: tensor, x_b: tensor, x_h: tensor, x_s: tensor, x_d: tensor, o_b: tensor, o_h: tensor,
    o_s: tensor, o_d: tensor, t_b: tensor, t_s: tensor, pairs: constexpr, tail: constexpr,
    interleaved: constexpr, inverse: constexpr, compute: constexpr, heads_block: constexpr,
    tokens_block: constexpr, pairs_block: constexpr, tail_block: constexpr,
) -> None:  # fmt: skip
    """Rotate block number `program` of one tensor: tokens fastest, then heads, then batch rows."""
    token_blocks = (length + tokens_block - 1) // tokens_block
    head_blocks = (heads + heads_block - 1) // heads_block
    rest = program // token_blocks
    row = (rest // head_blocks).to(tl.int64)
    head = ((rest % head_blocks) * heads_block + tl.arange(0, heads_block)).to(tl.int64)
    token = ((program % token_blocks) * tokens_block + tl.arange(0, tokens_block)).to(tl.int64)
    there = (head < heads)[:, None, None] & (token < length)[None, :, None]
    x += row * x_b + head[:, None, None] * x_h + token[None, :, None] * x_s
    out += row * o_b + head[:, None, None] * o_h + token[None, :, None] * o_s

    if pairs > 0:
        pair = tl.arange(0, pairs_block)
        known = (token < length)[:, None] & (pair < pairs)[None, :]
        place = row * t_b + token[:, None] * t_s + pair[None, :]
        if interleaved:
            channel = tl.arange(0, 2 * pairs_block)
            kept = there & (channel < 2 * pairs)[None, None, :]
            channel = channel.to(tl.int64)[None, None, :]
            both = tl.load(x + channel * x_d, mask=kept, other=0.0)
            a, b = tl.split(tl.reshape(both, (heads_block, tokens_block, pairs_block, 2)))
        else:
            kept = there & (pair < pairs)[None, None, :]
            first = pair.to(tl.int64)[None, None, :]
            second = first + pairs
            a = tl.load(x + first * x_d, mask=kept, other=0.0)
            b = tl.load(x + second * x_d, mask=kept, other=0.0)
        # After the others, so that these many are under way while the few rows arrive.
        c = tl.load(cos + place, mask=known, other=0.0).to(compute)[None, :, :]
        s = tl.load(sin + place, mask=known, other=0.0).to(compute)[None, :, :]
        a, b = rotate_pairs(a.to(compute), b.to(compute), c, s, inverse)
        a, b = a.to(out.dtype.element_ty), b.to(out.dtype.element_ty)
        if interleaved:
            rotated = tl.reshape(tl.join(a, b), (heads_block, tokens_block, 2 * pairs_block))
            tl.store(out + channel * o_d, rotated, mask=kept)
        else:
            tl.store(out + first * o_d, a, mask=kept)
            tl.store(out + second * o_d, b, mask=kept)

    if tail > 0:
        beyond = tl.arange(0, tail_block)
        kept = there & (beyond < tail)[None, None, :]
        beyond = (2 * pairs + beyond).to(tl.int64)[None, None, :]
        tl.store(out + beyond * o_d, tl.load(x + beyond * x_d, mask=kept), mask=kept)


@triton.jit(do_not_specialize=["q_programs", "q_length", "k_length"])
def rotate_blocks(
    q: tensor, q_out: tensor, q_cos: tensor, q_sin: tensor, k: tensor, k_out: tensor,
    k_cos: tensor, k_sin: tensor, q_programs: tensor, q_heads: tensor, k_heads: tensor,
    q_length: tensor, k_length: tensor, q_b: tensor, q_h: tensor, q_s: tensor, q_d: tensor,
    qo_b: tensor, qo_h: tensor, qo_s: tensor, qo_d: tensor, qt_b: tensor, qt_s: tensor,
    k_b: tensor, k_h: tensor, k_s: tensor, k_d: tensor, ko_b: tensor, ko_h: tensor, ko_s: tensor,
    ko_d: tensor, kt_b: tensor, kt_s: tensor, pairs: constexpr, tail: constexpr,
    interleaved: constexpr, inverse: constexpr, compute: constexpr, heads_block: constexpr,
    tokens_block: constexpr, pairs_block: constexpr, tail_block: constexpr,
) -> None:  # fmt: skip
    """The first `q_programs` programs rotate q, the others k."""
    program = tl.program_id(0)
    if program < q_programs:
        rotate_block(
            q, q_out, q_cos, q_sin, program, q_heads, q_length, q_b, q_h, q_s, q_d, qo_b, qo_h,
            qo_s, qo_d, qt_b, qt_s, pairs, tail, interleaved, inverse, compute, heads_block,
            tokens_block, pairs_block, tail_block,
        )  # fmt: skip
    else:
        rotate_block(
            k, k_out, k_cos, k_sin, program - q_programs, k_heads, k_length, k_b, k_h, k_s, k_d,
            ko_b, ko_h, ko_s, ko_d, kt_b, kt_s, pairs, tail, interleaved, inverse, compute,
            heads_block, tokens_block, pairs_block, tail_block,
        )  # fmt: skip


@short
@dataclass(frozen=True, slots=True)
class Blocks:
    """What one program rotates: `heads` x `tokens`, by `warps` of 32 threads.

    `heads` and `tokens` are powers of two.
    """

    heads: int
    tokens: int
    warps: int


Operand = tuple[Tensor, Tensor, Tensor, Tensor]
"""What to rotate, where the result goes (the same tensor for in place), cosines and sines."""


def rotate(
    operands: Sequence[Operand], layout: Layout, inverse: bool, blocks: Blocks | None = None
) -> None:
    """Rotate one or two operands, together in one launch where they have the same channels.

    x and result: (batch, heads, sequence, head_dim), fp32, bf16, fp16 or fp64, any strides, head
    counts and lengths of their own; with in place no two elements in one place. Tables:
    (sequence, pairs) or (batch or 1, sequence, pairs), fp32 or fp64, amplitude included, with
    2 * pairs <= head_dim. A pair (a, b) becomes (a cos - b sin, b cos + a sin); channels from
    2 * pairs on pass unchanged. `inverse` negates the angle: the backward pass. `blocks` replaces
    the choice of block sizes. Nothing waits for the device, and nothing is checked here: callers
    have, see `ropewalk.kernels.rotation`.
    """
    sides = [_Side.of(*operand) for operand in operands]
    if len(sides) == 2 and sides[0].alike(sides[1]):
        _launch(sides[0], sides[1], layout, inverse, blocks)
        return
    for side in sides:
        _launch(side, None, layout, inverse, blocks)


def choose_blocks(heads: int, length: int, pairs: int, size: int) -> Blocks:
    """Block sizes for tensors of `heads`, `length` tokens, `pairs` pairs, `size` bytes a channel.

    About 8 KiB a program in 128 threads: four loads of 16 bytes in each thread, and several
    programs on every multiprocessor. Up to four heads share the rows of the table; one decoded
    token takes more heads instead of tokens.
    """
    rows = max(1, 8192 // (size * 2 * triton.next_power_of_2(pairs)))
    shared = min(4, rows, triton.next_power_of_2(heads))
    tokens = min(rows // shared, triton.next_power_of_2(length))
    return Blocks(min(rows // tokens, triton.next_power_of_2(heads)), tokens, 4)


class _Side(NamedTuple):
    """One operand, its tables (batch, sequence, pairs) with equal strides, the last of them 1."""

    x: Tensor
    out: Tensor
    cos: Tensor
    sin: Tensor

    @classmethod
    def of(cls, x: Tensor, out: Tensor, cos: Tensor, sin: Tensor) -> Self:
        if cos.stride() != sin.stride() or cos.stride(-1) != 1:
            cos, sin = cos.contiguous(), sin.contiguous()
        shape = (x.shape[0], x.shape[2], cos.shape[-1])
        return cls(x, out, cos.expand(shape), sin.expand(shape))

    @property
    def in_place(self) -> bool:
        return self.out.data_ptr() == self.x.data_ptr()

    @property
    def computed(self) -> torch.dtype:
        """What products and sums are in."""
        return torch.promote_types(self.x.dtype, self.cos.dtype)

    def alike(self, other: _Side) -> bool:
        """Whether one kernel can rotate both."""
        mine, its = (
            (side.x.shape[3], side.cos.shape[2], side.cos.dtype, side.computed, side.x.device)
            for side in (self, other)
        )
        return mine == its

    def programs(self, blocks: Blocks) -> int:
        batch, heads, length, _ = self.x.shape
        return batch * -(-heads // blocks.heads) * -(-length // blocks.tokens)

    def strides(self) -> tuple[int, ...]:
        """Of x, of the result, and of both tables but for their last dimension."""
        return (*self.x.stride(), *self.out.stride(), *self.cos.stride()[:2])


def _launch(
    q: _Side, k: _Side | None, layout: Layout, inverse: bool, blocks: Blocks | None
) -> None:
    """One launch for both; none where there is nothing to rotate."""
    other = q if k is None else k
    pairs = q.cos.shape[2]
    tail = 0 if q.in_place and other.in_place else q.x.shape[3] - 2 * pairs
    if blocks is None:
        heads, length = (max(q.x.shape[i], other.x.shape[i], 1) for i in (1, 2))
        size = min(q.x.element_size(), other.x.element_size())
        blocks = choose_blocks(heads, length, max(pairs, tail, 1), size)
    q_programs = q.programs(blocks)
    programs = q_programs + (0 if k is None else k.programs(blocks))
    if not programs or not pairs + tail:
        return
    exact = q.computed is torch.float64
    with torch.cuda.device(q.x.device) if q.x.is_cuda else nullcontext():  # none if interpreted
        rotate_blocks[(programs,)](
            *q, *other, q_programs, q.x.shape[1], other.x.shape[1], q.x.shape[2],
            other.x.shape[2], *q.strides(), *other.strides(),
            pairs=pairs, tail=tail, interleaved=layout == "interleaved", inverse=inverse,
            compute=tl.float64 if exact else tl.float32,
            heads_block=blocks.heads, tokens_block=blocks.tokens,
            pairs_block=triton.next_power_of_2(pairs), tail_block=triton.next_power_of_2(tail),
            num_warps=blocks.warps, enable_fp_fusion=False,
        )  # fmt: skip
