"""What may be turned: one check for every path, so that all of them refuse alike."""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.errors import TensorError, UsageError

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""What q and k may be."""

LAYOUTS = ("half", "interleaved")


def check_layout(layout: str) -> None:
    """Refuse a layout that is none. Raises UsageError."""
    if layout not in LAYOUTS:
        raise UsageError(f"layout is {layout!r}; channels are paired 'half' or 'interleaved'")


def check_operand(x: Tensor, cos: Tensor, sin: Tensor, name: str, tables: str = "") -> None:
    """Refuse `x` (called `name`) and tables (called `tables` + cos and sin) that do not fit.

    Raises TensorError, which says both shapes and what is allowed.
    """
    if x.dim() != 4:
        raise TensorError(
            f"{name} has shape {tuple(x.shape)}; what is turned is (batch, heads, sequence, "
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
            f"{tables}cos turns {shape[-1]} pairs and {name} has {head_dim} channels; at most "
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
            "turn with ropewalk.kernels.reference.rotated, which differentiates everything"
        )
