"""The rotation as operators of torch: `ropewalk::rotate`, and `ropewalk::rotate_` in place.

They are what `torch.compile`, `torch.export` and autograd see. A rotation is linear: its gradient
is the rotation by the opposite angle, so the backward pass is the same operator, and may itself
be differentiated; its derivative along a direction is that direction rotated; mapped over a
dimension, it is one rotation of a larger batch. Tables are constants. Each call runs on the best
path for its device.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ropewalk.kernels import reference
from ropewalk.kernels.cpu import rotate as cpu
from ropewalk.rope.spec import Layout

LIBRARY = torch.library.Library("ropewalk", "FRAGMENT")
_TABLES = "Tensor cos, Tensor sin, Tensor? k_cos, Tensor? k_sin"
for _schema in (
    f"rotate(Tensor q, Tensor k, {_TABLES}, str layout, bool inverse) -> (Tensor, Tensor)",
    f"rotate_(Tensor(a!) q, Tensor(b!) k, {_TABLES}, str layout) -> ()",
):
    LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


def rotate(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
    layout: Layout,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    """q and k rotated, into fresh memory of their own strides."""
    q_out, k_out = torch.empty_like(q), torch.empty_like(k)
    k_cos, k_sin = (cos, sin) if k_cos is None or k_sin is None else (k_cos, k_sin)
    _run(cpu.Operand(q, q_out, cos, sin), cpu.Operand(k, k_out, k_cos, k_sin), layout, inverse)
    return q_out, k_out


def rotate_(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
    layout: Layout,
) -> None:
    """q and k rotated where they lie; autograd is told that they changed."""
    k_cos, k_sin = (cos, sin) if k_cos is None or k_sin is None else (k_cos, k_sin)
    _run(cpu.Operand(q, q, cos, sin), cpu.Operand(k, k, k_cos, k_sin), layout, False)
    for x in (q, k):
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)


def _run(q: cpu.Operand, k: cpu.Operand, layout: Layout, inverse: bool) -> None:
    """Both in one call where one kernel takes both, else one after the other."""
    if q.x.is_cuda and k.x.is_cuda and (gpu := _gpu()):
        gpu((q, k), layout, inverse)
        return
    both = q.x.dtype is k.x.dtype and q.x.shape[0] == k.x.shape[0]
    both = both and q.cos.shape[-1] == k.cos.shape[-1]
    both = both and cpu.serves(q.x, q.cos) and cpu.serves(k.x, k.cos)
    for operands in ((q, k),) if both else ((q,), (k,)):
        x, out, cos, sin = operands[0]
        if both or cpu.serves(x, cos):
            cpu.rotate(operands, layout == "interleaved", inverse)
        else:
            out.copy_(reference.rotate(x, cos, -sin if inverse else sin, layout))


@cache
def _gpu() -> Callable[[Sequence[cpu.Operand], Layout, bool], None] | None:
    """The Triton kernel, None where triton is not installed or the torch path was chosen."""
    if os.environ.get("ROPEWALK_KERNELS") == "torch" or find_spec("triton") is None:
        return None
    from ropewalk.kernels.triton.rotate import rotate

    return rotate


def _fake(q: Tensor, k: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k)


def _fake_in_place(*_: object) -> None:
    return None


def _keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    del output
    *_, cos, sin, k_cos, k_sin, ctx.layout, ctx.inverse = inputs
    ctx.save_for_backward(cos, sin, k_cos, k_sin)


def _backward(ctx: Any, q_grad: Tensor, k_grad: Tensor) -> tuple[Tensor | None, ...]:
    by = (*ctx.saved_tensors, ctx.layout, not ctx.inverse)
    back = torch.ops.ropewalk.rotate.default(q_grad, k_grad, *by)
    return (*back, None, None, None, None, None, None)


for _name, _kernel, _shape in (("rotate", rotate, _fake), ("rotate_", rotate_, _fake_in_place)):
    LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"ropewalk::{_name}", _shape, lib=LIBRARY)
torch.library.register_autograd("ropewalk::rotate", _backward, setup_context=_keep, lib=LIBRARY)


def transformed() -> bool:
    """Whether one of `vmap`, `grad`, `jvp` ... is under way, or a forward-mode level is open:
    there the operators of a library cannot follow.
    """
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def rotate_transformed(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
    layout: Layout,
    inverse: bool,
) -> tuple[Tensor, Tensor]:
    """As `rotate`, under any nesting of `torch.func`'s transforms and in forward mode."""
    k_cos, k_sin = (cos, sin) if k_cos is None or k_sin is None else (k_cos, k_sin)
    return (
        _Rotation.apply(q, cos, sin, layout, inverse),  # type: ignore[no-untyped-call]
        _Rotation.apply(k, k_cos, k_sin, layout, inverse),  # type: ignore[no-untyped-call]
    )


class _Rotation(torch.autograd.Function):
    """One tensor rotated: forward, backward, along a direction, and mapped."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, inverse: bool) -> Tensor:
        """Only values are left here."""
        return rotate(x, x[:, :0], cos, sin, None, None, layout, inverse)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the tables for both directions of differentiation."""
        del output
        _, cos, sin, ctx.layout, ctx.inverse = inputs
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient, rotated back."""
        cos, sin = ctx.saved_tensors
        back = _Rotation.apply(grads[0], cos, sin, ctx.layout, not ctx.inverse)  # type: ignore[no-untyped-call]
        return back, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *directions: Any) -> Tensor:
        """The direction, rotated alike."""
        cos, sin = ctx.saved_tensors
        along: Tensor = _Rotation.apply(directions[0], cos, sin, ctx.layout, ctx.inverse)  # type: ignore[no-untyped-call]
        return along

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
        whole: Tensor = _Rotation.apply(x.flatten(0, 1), cos, sin, layout, inverse)  # type: ignore[no-untyped-call]
        return whole.unflatten(0, (size, batch)), 0


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
