"""Rotary on a GPU: queries and keys turned in one launch, at the speed of memory.

A program turns a block of heads x tokens. It reads the table's rows of its tokens once for all
of its heads, and has read its whole block before it writes, so many loads are in flight and a
block may be written onto itself. Both layouts read runs of channels: "interleaved" reads pairs
as they lie and parts them in registers.

Products are rounded before they are added (no fused multiply-add), as separate torch operators
round them, so that results are those of `ropewalk.kernels.reference` bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
import triton
from torch import Tensor

from ropewalk.kernels.triton.device import on_device_of
from ropewalk.kernels.triton.turn_block import turn_blocks
from ropewalk.rope.spec import Layout
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Blocks:
    """What one program turns: `heads` x `tokens`, by `warps` of 32 threads.

    `heads` and `tokens` are powers of two.
    """

    heads: int
    tokens: int
    warps: int


Operand = tuple[Tensor, Tensor, Tensor, Tensor]
"""What to turn, where the result goes (the same tensor for in place), cosines and sines."""


def turn(
    operands: Sequence[Operand], layout: Layout, inverse: bool, blocks: Blocks | None = None
) -> None:
    """Turn one or two operands, together in one launch where they have the same channels.

    x and result: (batch, heads, sequence, head_dim), fp32, bf16, fp16 or fp64, any strides, head
    counts and lengths of their own; with in place no two elements in one place. Tables:
    (sequence, pairs) or (batch or 1, sequence, pairs), fp32 or fp64, amplitude included, with
    2 * pairs <= head_dim. A pair (a, b) becomes (a cos - b sin, b cos + a sin); channels from
    2 * pairs on pass unchanged. `inverse` negates the angle: the backward pass. `blocks` replaces
    the choice of block sizes. Nothing waits for the device, and nothing is checked here: callers
    have, see `ropewalk.kernels.checks`.
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
        """Whether one kernel can turn both."""
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
    """One launch for both; none where there is nothing to turn."""
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
    with on_device_of(q.x):
        turn_blocks[(programs,)](
            *q, *other, q_programs, q.x.shape[1], other.x.shape[1], q.x.shape[2],
            other.x.shape[2], *q.strides(), *other.strides(),
            pairs=pairs, tail=tail, interleaved=layout == "interleaved", inverse=inverse,
            compute=triton.language.float64 if exact else triton.language.float32,
            heads_block=blocks.heads, tokens_block=blocks.tokens,
            pairs_block=triton.next_power_of_2(pairs), tail_block=triton.next_power_of_2(tail),
            num_warps=blocks.warps, enable_fp_fusion=False,
        )  # fmt: skip
