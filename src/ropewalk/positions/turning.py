"""The rotation itself: channel pairs turned by given cosines and sines.

The arithmetic is that of `ropewalk.kernels`: in fp32 at least, rounded once to the dtype that came
in, by compiled code where there is some. Nothing is changed in place.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ropewalk.kernels.rotary import rotate, rotate_one
from ropewalk.rope.spec import Layout, Placement


class Tables(NamedTuple):
    """Cosines and sines, each (batch, sequence, pairs) or (sequence, pairs), amplitude included.

    Worth keeping for one forward pass: they are the same in every layer of one encoding.
    """

    cos: Tensor
    sin: Tensor


def turn(x: Tensor, tables: Tables, layout: Layout, placement: Placement = "first") -> Tensor:
    """2 * pairs channels of `x` (batch, heads, sequence, head_dim) turned: its first, or its last.

    A pair (a, b) becomes (a cos - b sin, b cos + a sin). "half" pairs channel i with i + pairs,
    "interleaved" 2i with 2i + 1. The other channels pass unchanged. Same shape and dtype as `x`.

    Differentiable in `x`, any number of times. Raises a UsageError for what does not fit.
    """
    cos, sin = tables
    still = x.shape[-1] - 2 * cos.shape[-1]
    if placement == "last" and still > 0:
        turned = rotate_one(x[..., still:], cos, sin, layout)
        return torch.cat((x[..., :still], turned), dim=-1)
    return rotate_one(x, cos, sin, layout)


def turn_both(
    q: Tensor,
    k: Tensor,
    q_tables: Tables,
    k_tables: Tables,
    layout: Layout,
    placement: Placement = "first",
) -> tuple[Tensor, Tensor]:
    """As `turn`, for q and k, each by its tables, in one call where their first channels turn."""
    if placement == "first":
        return rotate(q, k, *q_tables, layout, *k_tables)
    return turn(q, q_tables, layout, placement), turn(k, k_tables, layout, placement)


def turn_some(
    x: Tensor,
    tables: Tables,
    layout: Layout,
    heads: tuple[int, ...],
    placement: Placement = "first",
) -> Tensor:
    """As `turn`, for the given heads alone; the others pass unchanged."""
    chosen = torch.tensor([head in heads for head in range(x.shape[1])], device=x.device)
    return torch.where(chosen[:, None, None], turn(x, tables, layout, placement), x)


def to_interleaved(weight: Tensor, heads: int) -> Tensor:
    """Query or key rows (heads * head_dim, ...) of a "half" model, reordered for "interleaved".

    Scores do not change when both projections are reordered; keys with their own head count.
    """
    rows: Tensor = weight.unflatten(0, (heads, 2, -1))
    return rows.transpose(1, 2).flatten(0, 2)


def to_half(weight: Tensor, heads: int) -> Tensor:
    """Query or key rows (heads * head_dim, ...) of an "interleaved" model, reordered for "half"."""
    rows: Tensor = weight.unflatten(0, (heads, -1, 2))
    return rows.transpose(1, 2).flatten(0, 2)
