"""Rotary encoding at the speed of memory: q and k rotated by given cosines and sines.

Tensors are (batch, heads, sequence, head_dim) views with any strides: what attention layouts
keep in another order, or packed into one row, is rotated where it lies. Tables are (sequence,
pairs) or (batch, sequence, pairs), amplitude included, float32 (float64 for float64 values);
channels beyond 2 * pairs pass unchanged. Arithmetic is fp32 and rounded once to the dtype that
came in; the results are those of `ropewalk.kernels.reference`, bit for bit.

Without a gradient to keep, and outside of torch's tracers, a call goes straight to the kernel:
what torch spends on dispatching an operator would cost a decoded token more than its rotation.
"""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from ropewalk.errors import TensorError, UsageError
from ropewalk.kernels import rotation_ops as ops
from ropewalk.rope.spec import Layout

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""What q and k may be."""


@overload
def rotate(
    q: Tensor, k: None, cos: Tensor, sin: Tensor, layout: Layout, *, in_place: bool = False
) -> tuple[Tensor, None]: ...


@overload
def rotate(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: Layout,
    k_cos: Tensor | None = None,
    k_sin: Tensor | None = None,
    *,
    in_place: bool = False,
) -> tuple[Tensor, Tensor]: ...


def rotate(
    q: Tensor,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    layout: Layout,
    k_cos: Tensor | None = None,
    k_sin: Tensor | None = None,
    *,
    in_place: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """q and k rotated, as new tensors; keys have heads of their own count, None for q alone.

    A pair (a, b) becomes (a cos - b sin, b cos + a sin). "half" (NeoX style) pairs channel i with
    i + pairs, "interleaved" (GPT-J style) 2i with 2i + 1. `k_cos`, `k_sin`: the keys' tables
    where they are not the queries'. Differentiable in q and k, any number of times; tables are
    constants, and ones that require a gradient are refused.

    `in_place` overwrites q and k and returns them: for inference, where it saves a copy of both.

    Raises TensorError for shapes, dtypes or devices that do not fit; in place also for tensors
    that autograd follows, and expanded ones, several of whose elements share a place in memory.
    """
    _check(q, k, cos, sin, layout, k_cos, k_sin)
    # A missing k is one of no heads, so that everything below takes two tensors.
    keys = q.new_empty((q.shape[0], 0, *q.shape[2:])) if k is None else k
    if in_place:
        _check_writable("q", q)
        _check_writable("k", keys)
        direct = _direct(q) and _direct(keys)
        into = ops.rotate_ if direct else torch.ops.ropewalk.rotate_.default
        into(q, keys, cos, sin, k_cos, k_sin, layout)
        return q, k
    given = (q, keys, cos, sin, k_cos, k_sin, layout, False)
    if _direct(q) and _direct(keys):
        rotated = ops.rotate(*given)
    elif not torch.compiler.is_compiling() and ops.transformed():
        rotated = ops.rotate_transformed(*given)
    else:
        rotated = torch.ops.ropewalk.rotate.default(*given)
    return rotated[0], None if k is None else rotated[1]


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
        and not ops.transformed()
    )


def _check(
    q: Tensor,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    layout: str,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
) -> None:
    """Refuse what `rotate` says it refuses."""
    if layout not in ("half", "interleaved"):
        raise UsageError(f"layout is {layout!r}; channels are paired 'half' or 'interleaved'")
    _check_operand(q, cos, sin, "q")
    if (k_cos is None) != (k_sin is None):
        given, missing = ("k_cos", "k_sin") if k_sin is None else ("k_sin", "k_cos")
        raise UsageError(f"{given} was given without {missing}; keys' tables come together")
    if k is not None and k_cos is not None and k_sin is not None:
        _check_operand(k, k_cos, k_sin, "k", "k_")
    elif k is not None:
        _check_operand(k, cos, sin, "k")


def _check_operand(x: Tensor, cos: Tensor, sin: Tensor, name: str, tables: str = "") -> None:
    """Refuse `x` (called `name`) and tables (called `tables` + cos and sin) that do not fit."""
    if x.dim() != 4:
        raise TensorError(
            f"{name} has shape {tuple(x.shape)}; what is rotated is (batch, heads, sequence, "
            "head_dim), a view with any strides"
        )
    if x.dtype not in DTYPES:
        raise TensorError(
            f"{name} has dtype {x.dtype}; it may be float32, bfloat16, float16 or float64"
        )
    if cos.shape != sin.shape or cos.dtype != sin.dtype:
        raise TensorError(
            f"{tables}cos is {tuple(cos.shape)} of {cos.dtype} and {tables}sin "
            f"{tuple(sin.shape)} of {sin.dtype}; both have one shape and one dtype"
        )
    batch, _, length, head_dim = x.shape
    shape = cos.shape
    rows = shape[0] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or rows not in (1, batch) or shape[-2] != length:
        raise TensorError(
            f"{tables}cos has shape {tuple(shape)} and {name} {tuple(x.shape)}; tables are "
            f"({length}, pairs), or ({batch}, {length}, pairs) with rows of their own"
        )
    if 2 * shape[-1] > head_dim:
        raise TensorError(
            f"{tables}cos rotates {shape[-1]} pairs and {name} has {head_dim} channels; at most "
            f"{head_dim // 2} pairs fit"
        )
    if cos.dtype not in (torch.float32, torch.float64):
        raise TensorError(
            f"{tables}cos has dtype {cos.dtype}; tables are float32, or float64: build them wide "
            "and round the result alone"
        )
    if cos.device != x.device or sin.device != x.device:
        raise TensorError(
            f"{name} is on {x.device}, {tables}cos on {cos.device} and {tables}sin on "
            f"{sin.device}; move them to one device"
        )
    if cos.requires_grad or sin.requires_grad:
        raise TensorError(
            f"{tables}cos or sin requires a gradient; tables are constants here: detach them, or "
            "rotate with ropewalk.kernels.reference.rotate, which differentiates everything"
        )


def _check_writable(name: str, x: Tensor) -> None:
    """Refuse a tensor that cannot be overwritten."""
    if x.requires_grad and torch.is_grad_enabled():
        raise TensorError(
            f"{name} of shape {tuple(x.shape)} requires a gradient and would be overwritten; "
            "train without in_place, or rotate in place under torch.no_grad()"
        )
    if shares_memory(x):
        raise TensorError(
            f"{name} has shape {tuple(x.shape)} and strides {x.stride()}: elements share "
            "memory and cannot be rotated in place; leave in_place out, or take q.contiguous()"
        )


def shares_memory(x: Tensor) -> bool:
    """Whether a tensor is expanded: several of its elements share a place in memory."""
    return 0 in x.stride() and any(
        n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True)
    )
