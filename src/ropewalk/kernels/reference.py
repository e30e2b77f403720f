"""The rotation in plain torch: what every kernel is held against, and what runs without one.

A pair (a, b) becomes (a cos - b sin, b cos + a sin): products and sums alone, in fp32 at least
and each rounded, so autocast has nothing to lower; the result is rounded once to the dtype that
came in. Kernels give the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.rope.spec import Layout


def rotated(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """The first 2 * pairs channels of `x` (batch, heads, sequence, head_dim) turned.

    `cos`, `sin`: (sequence, pairs) or (batch, sequence, pairs). "half" pairs channel i with
    i + pairs, "interleaved" 2i with 2i + 1. Channels beyond pass unchanged. Same shape and dtype
    as `x`, whose place in memory is not touched. Differentiable in everything.
    """
    cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    turned_dim = 2 * cos.shape[-1]
    turning = x[..., :turned_dim].to(torch.promote_types(x.dtype, cos.dtype))
    if layout == "half":
        first, second = turning.chunk(2, dim=-1)
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    else:
        first, second = turning.unflatten(-1, (-1, 2)).unbind(-1)
        both = (first * cos - second * sin, second * cos + first * sin)
        turned = torch.stack(both, dim=-1).flatten(-2)
    turned = turned.to(x.dtype)
    if turned_dim == x.shape[-1]:
        return turned
    return torch.cat((turned, x[..., turned_dim:]), dim=-1)
