"""The compiled rotation: tensors written down as the request of `abi.h`, and the call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import NamedTuple

import torch
from torch import Tensor

from ropewalk.kernels.cpu.library import native

_DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3}
_OPERAND = 17
_REQUEST = Struct(f"{7 + 2 * _OPERAND}q")
_NO_OPERAND = (0,) * _OPERAND


class Operand(NamedTuple):
    """One tensor to rotate, and where the result goes: `x` itself for in place."""

    x: Tensor
    out: Tensor
    cos: Tensor
    sin: Tensor


@cache
def kernel() -> Callable[[bytes], None] | None:
    """The function of the library that takes a packed request; None where no library runs."""
    library = native()
    if library is None:
        return None
    function = library.handle.ropewalk_rotary
    function.argtypes = [ctypes.c_char_p]
    function.restype = None
    taken: Callable[[bytes], None] = function
    return taken


def serves(x: Tensor, cos: Tensor) -> bool:
    """Whether the library is there and rotates `x` by such tables: fp64 ones for fp64 values."""
    wide_enough = cos.dtype is torch.float32 or x.dtype is torch.float64
    return x.is_cpu and wide_enough and kernel() is not None


def rotate(operands: Sequence[Operand], interleaved: bool, inverse: bool) -> None:
    """Rotate one tensor, or two of one dtype, batch and number of pairs.

    Shapes have been checked and `serves` has said yes. An `out` that is not `x` is new memory
    without gaps, as `torch.empty_like` gives it.
    """
    call = kernel()
    assert call is not None  # noqa: S101 - `serves` said so
    x, _, cos, _ = operands[0]
    # Tables that had to be copied live in here until the call is over.
    ready = [_side_by_side(operand) for operand in operands]
    second = _packed(ready[1]) if len(ready) == 2 else _NO_OPERAND
    call(
        _REQUEST.pack(
            _DTYPES[x.dtype],
            interleaved,
            inverse,
            torch.get_num_threads(),
            x.shape[0],
            cos.shape[-1],
            len(ready),
            *_packed(ready[0]),
            *second,
        )
    )


def _side_by_side(operand: Operand) -> Operand:
    """With tables as the library takes them: as wide as it computes, strides alike."""
    x, out, cos, sin = operand
    if x.dtype is torch.float64:
        cos, sin = cos.double(), sin.double()
    if cos.stride(-1) != 1 or cos.stride() != sin.stride():
        cos, sin = cos.contiguous(), sin.contiguous()
    return Operand(x, out, cos, sin)


def _packed(operand: Operand) -> tuple[int, ...]:
    """The words of a RotaryOperand."""
    x, out, cos, sin = operand
    _, heads, length, head_dim = x.shape
    *rows, position, _ = cos.stride()
    return (
        x.data_ptr(),
        out.data_ptr(),
        heads,
        length,
        head_dim,
        *x.stride(),
        *out.stride(),
        cos.data_ptr(),
        sin.data_ptr(),
        rows[0] if rows and cos.shape[0] > 1 else 0,
        position,
    )
