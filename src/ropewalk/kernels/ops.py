"""The rotation as operators of torch: `ropewalk::rotate`, `rotate_one` and `rotate_`.

They are what `torch.compile`, `torch.export` and autograd see. The gradient of a rotation
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
