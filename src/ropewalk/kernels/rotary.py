"""Rotary encoding at the speed of memory: q and k turned by given cosines and sines.

Tensors are (batch, heads, sequence, head_dim) views with any strides: what attention layouts
keep in another order, or packed into one row, is turned where it lies. Tables are (sequence,
pairs) or (batch, sequence, pairs), amplitude included, float32 (float64 for float64 values);
channels beyond 2 * pairs pass unchanged. Arithmetic is fp32 and rounded once to the dtype that
came in; the results are those of `ropewalk.kernels.reference`, bit for bit.

Without a gradient to keep, and outside of torch's tracers, a call goes straight to the kernel:
what torch spends on dispatching an operator would cost a decoded token more than its rotation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.errors import TensorError, UsageError
from ropewalk.kernels import ops, transforms
from ropewalk.kernels.checks import check_layout, check_operand
from ropewalk.rope.spec import Layout


def rotate(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: Layout,
    k_cos: Tensor | None = None,
    k_sin: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """q and k turned, as new tensors; keys have heads of their own count.

    `k_cos`, `k_sin`: the keys' tables where they are not the queries'. "half" pairs channel i
    with i + pairs, "interleaved" 2i with 2i + 1. Differentiable in q and k, any number of times;
    tables are constants, and ones that require a gradient are refused.

    Raises TensorError for shapes, dtypes or devices that do not fit.
    """
    _check(q, k, cos, sin, layout, k_cos, k_sin)
    if _direct(q) and _direct(k):
        return ops.rotate(q, k, cos, sin, k_cos, k_sin, layout, False)
    if _transformed():
        k_by = (cos, sin) if k_cos is None or k_sin is None else (k_cos, k_sin)
        return transforms.turn(q, cos, sin, layout), transforms.turn(k, *k_by, layout)
    turned: tuple[Tensor, Tensor] = torch.ops.ropewalk.rotate.default(
        q, k, cos, sin, k_cos, k_sin, layout, False
    )
    return turned


def rotate_one(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """One tensor turned, as `rotate` turns q. Raises TensorError likewise."""
    check_layout(layout)
    check_operand(x, cos, sin, "x")
    if _direct(x):
        return ops.rotate_one(x, cos, sin, layout, False)
    if _transformed():
        return transforms.turn(x, cos, sin, layout)
    turned: Tensor = torch.ops.ropewalk.rotate_one.default(x, cos, sin, layout, False)
    return turned


def rotate_(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: Layout,
    k_cos: Tensor | None = None,
    k_sin: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """q and k turned in place and returned; for inference, where it saves a copy of both.

    Raises TensorError as `rotate`, and for what cannot be overwritten: tensors that autograd
    follows, and expanded ones, several of whose elements share a place in memory.
    """
    _check(q, k, cos, sin, layout, k_cos, k_sin)
    for name, x in (("q", q), ("k", k)):
        if x.requires_grad and torch.is_grad_enabled():
            raise TensorError(
                f"{name} of shape {tuple(x.shape)} requires a gradient and would be overwritten; "
                "train with rotate(), or turn in place under torch.no_grad()"
            )
        if 0 in x.stride() and any(
            n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True)
        ):
            raise TensorError(
                f"{name} has shape {tuple(x.shape)} and strides {x.stride()}: elements share "
                "memory and cannot be turned in place; use rotate(), or q.contiguous() first"
            )
    if _direct(q) and _direct(k):
        ops.rotate_(q, k, cos, sin, k_cos, k_sin, layout)
    else:
        torch.ops.ropewalk.rotate_.default(q, k, cos, sin, k_cos, k_sin, layout)
    return q, k


def _check(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
) -> None:
    """Refuse what `rotate` says it refuses."""
    check_layout(layout)
    check_operand(q, cos, sin, "q")
    if k_cos is None and k_sin is None:
        check_operand(k, cos, sin, "k")
    elif k_cos is not None and k_sin is not None:
        check_operand(k, k_cos, k_sin, "k", "k_")
    else:
        given, missing = ("k_cos", "k_sin") if k_sin is None else ("k_sin", "k_cos")
        raise UsageError(f"{given} was given without {missing}; keys' tables come together")


def _direct(x: Tensor) -> bool:
    """Whether nothing of torch needs to see this call: no gradient, tracer, mode or subclass."""
    return (
        not torch.compiler.is_compiling()
        and type(x) is Tensor
        and not (x.requires_grad and torch.is_grad_enabled())
        and not x.is_meta
        and not x.is_neg()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._get_tracing_state() is None
        and not transforms.active()
    )


def _transformed() -> bool:
    """Whether `torch.func` or forward mode follows this call; compiled code is followed apart."""
    return not torch.compiler.is_compiling() and transforms.active()
