"""The device's part of the rotary kernel: one block of heads x tokens turned.

Offsets are 64-bit, so tensors may have more than 2^31 elements.
"""

from __future__ import annotations

import triton
from triton import language as tl
from triton.language import constexpr, tensor


@triton.jit
def turn_pairs(
    first: tensor, second: tensor, cos: tensor, sin: tensor, inverse: constexpr,
) -> tuple[tensor, tensor]:  # fmt: skip
    """(a cos - b sin, b cos + a sin), or with the angle negated."""
    if inverse:
        return first * cos + second * sin, second * cos - first * sin
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def turn_block(
    x: tensor, out: tensor, cos: tensor, sin: tensor, program: tensor, heads: tensor,
    length: tensor, x_b: tensor, x_h: tensor, x_s: tensor, x_d: tensor, o_b: tensor, o_h: tensor,
    o_s: tensor, o_d: tensor, t_b: tensor, t_s: tensor, pairs: constexpr, tail: constexpr,
    interleaved: constexpr, inverse: constexpr, compute: constexpr, heads_block: constexpr,
    tokens_block: constexpr, pairs_block: constexpr, tail_block: constexpr,
) -> None:  # fmt: skip
    """Turn block number `program` of one tensor: tokens fastest, then heads, then batch rows."""
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
        a, b = turn_pairs(a.to(compute), b.to(compute), c, s, inverse)
        a, b = a.to(out.dtype.element_ty), b.to(out.dtype.element_ty)
        if interleaved:
            turned = tl.reshape(tl.join(a, b), (heads_block, tokens_block, 2 * pairs_block))
            tl.store(out + channel * o_d, turned, mask=kept)
        else:
            tl.store(out + first * o_d, a, mask=kept)
            tl.store(out + second * o_d, b, mask=kept)

    if tail > 0:
        beyond = tl.arange(0, tail_block)
        kept = there & (beyond < tail)[None, None, :]
        beyond = (2 * pairs + beyond).to(tl.int64)[None, None, :]
        tl.store(out + beyond * o_d, tl.load(x + beyond * x_d, mask=kept), mask=kept)


@triton.jit(do_not_specialize=["q_programs", "q_length", "k_length"])
def turn_blocks(
    q: tensor, q_out: tensor, q_cos: tensor, q_sin: tensor, k: tensor, k_out: tensor,
    k_cos: tensor, k_sin: tensor, q_programs: tensor, q_heads: tensor, k_heads: tensor,
    q_length: tensor, k_length: tensor, q_b: tensor, q_h: tensor, q_s: tensor, q_d: tensor,
    qo_b: tensor, qo_h: tensor, qo_s: tensor, qo_d: tensor, qt_b: tensor, qt_s: tensor,
    k_b: tensor, k_h: tensor, k_s: tensor, k_d: tensor, ko_b: tensor, ko_h: tensor, ko_s: tensor,
    ko_d: tensor, kt_b: tensor, kt_s: tensor, pairs: constexpr, tail: constexpr,
    interleaved: constexpr, inverse: constexpr, compute: constexpr, heads_block: constexpr,
    tokens_block: constexpr, pairs_block: constexpr, tail_block: constexpr,
) -> None:  # fmt: skip
    """The first `q_programs` programs turn q, the others k."""
    program = tl.program_id(0)
    if program < q_programs:
        turn_block(
            q, q_out, q_cos, q_sin, program, q_heads, q_length, q_b, q_h, q_s, q_d, qo_b, qo_h,
            qo_s, qo_d, qt_b, qt_s, pairs, tail, interleaved, inverse, compute, heads_block,
            tokens_block, pairs_block, tail_block,
        )  # fmt: skip
    else:
        turn_block(
            k, k_out, k_cos, k_sin, program - q_programs, k_heads, k_length, k_b, k_h, k_s, k_d,
            ko_b, ko_h, ko_s, ko_d, kt_b, kt_s, pairs, tail, interleaved, inverse, compute,
            heads_block, tokens_block, pairs_block, tail_block,
        )  # fmt: skip
