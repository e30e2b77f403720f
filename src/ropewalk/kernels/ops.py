"""The rotation as operators of torch: `ropewalk::rotate`, `rotate_one` and `rotate_`.

They are what `torch.compile`, `torch.export`, autograd and `vmap` see. The gradient of a rotation
is the rotation by the opposite angle, so the backward pass is the same operator, and may itself
be differentiated. Tables are constants. Each call runs on the best path for its device.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from ropewalk.kernels.cpu import rotary as cpu
from ropewalk.kernels.reference import rotated
from ropewalk.rope.spec import Layout

LIBRARY = torch.library.Library("ropewalk", "FRAGMENT")
_TABLES = "Tensor cos, Tensor sin, Tensor? k_cos, Tensor? k_sin"
LIBRARY.define(
    f"rotate(Tensor q, Tensor k, {_TABLES}, str layout, bool inverse) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
LIBRARY.define(
    "rotate_one(Tensor x, Tensor cos, Tensor sin, str layout, bool inverse) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
LIBRARY.define(
    f"rotate_(Tensor(a!) q, Tensor(b!) k, {_TABLES}, str layout) -> ()",
    tags=(torch.Tag.pt2_compliant_tag,),
)

Grads = tuple[Tensor | None, ...]


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
    """q and k turned, into fresh memory of their own strides."""
    q_out, k_out = torch.empty_like(q), torch.empty_like(k)
    k_cos, k_sin = (cos, sin) if k_cos is None or k_sin is None else (k_cos, k_sin)
    turn_both(cpu.Operand(q, q_out, cos, sin), cpu.Operand(k, k_out, k_cos, k_sin), layout, inverse)
    return q_out, k_out


def rotate_one(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, inverse: bool) -> Tensor:
    """x turned, into fresh memory of its own strides."""
    out = torch.empty_like(x)
    turn_one(cpu.Operand(x, out, cos, sin), layout, inverse)
    return out


def rotate_(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
    layout: Layout,
) -> None:
    """q and k turned where they lie; autograd is told that they changed."""
    k_cos, k_sin = (cos, sin) if k_cos is None or k_sin is None else (k_cos, k_sin)
    turn_both(cpu.Operand(q, q, cos, sin), cpu.Operand(k, k, k_cos, k_sin), layout, False)
    for x in (q, k):
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)


def turn_both(q: cpu.Operand, k: cpu.Operand, layout: Layout, inverse: bool) -> None:
    """Two tensors in one call where one kernel takes both, else one after the other."""
    alike = q.x.dtype is k.x.dtype and q.x.shape[0] == k.x.shape[0]
    alike = alike and q.cos.shape[-1] == k.cos.shape[-1]
    if alike and cpu.serves(q.x, q.cos) and cpu.serves(k.x, k.cos):
        cpu.turn((q, k), layout == "interleaved", inverse)
    elif q.x.is_cuda and (gpu := _gpu_turn()):
        gpu((q, k), layout, inverse)
    else:
        turn_one(q, layout, inverse)
        turn_one(k, layout, inverse)


def turn_one(operand: cpu.Operand, layout: Layout, inverse: bool) -> None:
    """One tensor, on the best path for where it lies."""
    x, out, cos, sin = operand
    if cpu.serves(x, cos):
        cpu.turn((operand,), layout == "interleaved", inverse)
    elif x.is_cuda and (gpu := _gpu_turn()):
        gpu((operand,), layout, inverse)
    else:
        out.copy_(rotated(x, cos, -sin if inverse else sin, layout))


@cache
def _gpu_turn() -> Callable[[Sequence[cpu.Operand], Layout, bool], None] | None:
    """The Triton kernel, None where triton is not installed or the torch path was chosen."""
    if os.environ.get("ROPEWALK_KERNELS") == "torch" or find_spec("triton") is None:
        return None
    from ropewalk.kernels.triton.rotary import turn

    return turn


def _fake(q: Tensor, k: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k)


def _fake_one(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x)


def _fake_in_place(*_: object) -> None:
    return None


def _keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    del output
    *_, cos, sin, k_cos, k_sin, layout, inverse = inputs
    ctx.save_for_backward(cos, sin, k_cos, k_sin)
    ctx.layout, ctx.inverse = layout, inverse


def _backward(ctx: Any, q_grad: Tensor, k_grad: Tensor) -> Grads:
    by = (*ctx.saved_tensors, ctx.layout, not ctx.inverse)
    turned = torch.ops.ropewalk.rotate.default(q_grad, k_grad, *by)
    return (*turned, None, None, None, None, None, None)


def _keep_one(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    del output
    _, cos, sin, ctx.layout, inverse = inputs
    ctx.save_for_backward(cos, sin)
    ctx.inverse = inverse


def _backward_one(ctx: Any, grad: Tensor) -> Grads:
    by = (*ctx.saved_tensors, ctx.layout, not ctx.inverse)
    return torch.ops.ropewalk.rotate_one.default(grad, *by), None, None, None, None


def _folded(x: Tensor, dim: int | None, size: int) -> Tensor:
    """The mapped dimension of q or k made part of the batch."""
    x = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.flatten(0, 1)


def _folded_table(table: Tensor, dim: int | None, size: int, batch: int) -> Tensor:
    """Likewise of a table, which may serve every row of the batch, or every mapped one."""
    if dim is None:
        if table.dim() == 2 or table.shape[0] == 1:
            return table
        return table.expand(size, *table.shape).flatten(0, 1)
    table = table.movedim(dim, 0)
    if table.dim() == 3:
        table = table.unsqueeze(1)
    return table.expand(size, batch, *table.shape[2:]).flatten(0, 1)


def _mapped(info: Any, dims: tuple[int | None, ...], *values: Any) -> tuple[Any, Any]:
    """`vmap` over `rotate`: one call with a larger batch."""
    q, k, *tables, layout, inverse = values
    size = info.batch_size
    folded = [_folded(x, dim, size) for x, dim in zip((q, k), dims, strict=False)]
    batch = folded[0].shape[0] // size
    by = [
        None if table is None else _folded_table(table, dim, size, batch)
        for table, dim in zip(tables, dims[2:6], strict=True)
    ]
    turned = torch.ops.ropewalk.rotate.default(*folded, *by, layout, inverse)
    return tuple(x.unflatten(0, (size, batch)) for x in turned), (0, 0)


def _mapped_one(info: Any, dims: tuple[int | None, ...], *values: Any) -> tuple[Any, Any]:
    """`vmap` over `rotate_one`, likewise."""
    x, *tables, layout, inverse = values
    folded = _folded(x, dims[0], info.batch_size)
    batch = folded.shape[0] // info.batch_size
    by = [
        _folded_table(table, dim, info.batch_size, batch)
        for table, dim in zip(tables, dims[1:3], strict=True)
    ]
    turned = torch.ops.ropewalk.rotate_one.default(folded, *by, layout, inverse)
    return turned.unflatten(0, (info.batch_size, batch)), 0


for _name, _kernel, _shape in (
    ("rotate", rotate, _fake),
    ("rotate_one", rotate_one, _fake_one),
    ("rotate_", rotate_, _fake_in_place),
):
    LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"ropewalk::{_name}", _shape, lib=LIBRARY)
torch.library.register_autograd("ropewalk::rotate", _backward, setup_context=_keep, lib=LIBRARY)
torch.library.register_autograd(
    "ropewalk::rotate_one", _backward_one, setup_context=_keep_one, lib=LIBRARY
)
torch.library.register_vmap("ropewalk::rotate", _mapped, lib=LIBRARY)
torch.library.register_vmap("ropewalk::rotate_one", _mapped_one, lib=LIBRARY)
