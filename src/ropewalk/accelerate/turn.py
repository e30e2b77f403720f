"""The one place where accelerated models meet the rotary kernels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ropewalk.kernels import rotate, rotate_, rotate_one
from ropewalk.rope.spec import Layout


def turn_all(
    tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, layout: Layout, *, in_place: bool = False
) -> list[Tensor]:
    """One or two tensors (batch, heads, sequence, channels) turned by the same tables.

    `cos` and `sin`: (sequence, pairs) or (batch, sequence, pairs), fp32 or fp64. `in_place`
    overwrites the tensors, except where several of their elements share a place in memory.
    """
    if in_place and not any(_shares_memory(x) for x in tensors):
        # A tensor alone goes with its own first no heads, which turn nothing.
        first, second = (*tensors, tensors[0][:, :0])[:2]
        rotate_(first, second, cos, sin, layout)
        return list(tensors)
    if len(tensors) == 2:
        return list(rotate(tensors[0], tensors[1], cos, sin, layout))
    return [rotate_one(x, cos, sin, layout) for x in tensors]


def _shares_memory(x: Tensor) -> bool:
    """Whether a tensor is expanded along an axis."""
    return any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))
