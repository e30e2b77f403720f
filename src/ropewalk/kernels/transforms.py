"""The rotation under `torch.func` and in forward mode, where operators of a library cannot follow.

A rotation is linear: its derivative along a direction is that direction turned, and its gradient
the gradient turned back. Mapped over a dimension, it is one rotation of a larger batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ropewalk.kernels import ops
from ropewalk.rope.spec import Layout


def active() -> bool:
    """Whether one of `vmap`, `grad`, `jvp` ... is under way, or a forward-mode level is open."""
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def turn(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, inverse: bool = False) -> Tensor:
    """As `ropewalk.kernels.rotate_one`, for any nesting of transforms; `inverse` turns back."""
    turned: Tensor = _Rotation.apply(x, cos, sin, layout, inverse)  # type: ignore[no-untyped-call]
    return turned


class _Rotation(torch.autograd.Function):
    """One tensor turned: forward, backward, along a direction, and mapped."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, inverse: bool) -> Tensor:
        """Values alone are left here."""
        return ops.rotate_one(x, cos, sin, layout, inverse)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the tables for both directions of differentiation."""
        del output
        _, cos, sin, ctx.layout, ctx.inverse = inputs
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient, turned back."""
        cos, sin = ctx.saved_tensors
        return turn(grads[0], cos, sin, ctx.layout, not ctx.inverse), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *directions: Any) -> Tensor:
        """The direction, turned alike."""
        cos, sin = ctx.saved_tensors
        return turn(directions[0], cos, sin, ctx.layout, ctx.inverse)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        layout: Layout,
        inverse: bool,
    ) -> tuple[Tensor, int]:
        """One call, with what is mapped made part of the batch."""
        size = info.batch_size
        x = x.expand(size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        batch = x.shape[1]
        cos, sin = (
            _folded(table, dim, size, batch)
            for table, dim in zip((cos, sin), in_dims[1:3], strict=True)
        )
        turned: Tensor = turn(x.flatten(0, 1), cos, sin, layout, inverse)
        return turned.unflatten(0, (size, batch)), 0


def _folded(table: Tensor, dim: int | None, size: int, batch: int) -> Tensor:
    """A table with a row for each row of the larger batch, or one for all of them."""
    if dim is None:
        if table.dim() == 2 or table.shape[0] == 1:
            return table
        return table.expand(size, *table.shape).flatten(0, 1)
    table = table.movedim(dim, 0)
    if table.dim() == 3:
        table = table.unsqueeze(1)
    return table.expand(size, batch, *table.shape[2:]).flatten(0, 1)
