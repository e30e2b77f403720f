"""Angles in double precision, and constants that no cast of a module can spoil.

An angle is a position times an inverse frequency. In fp32 the product alone is off by up to
4e-2 rad at position 1,048,576; in fp64 it is exact to 1e-10, so that sine and cosine, rounded
once to fp32, are within 6e-8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from ropewalk.positions.base import PositionEncoding


def constant(values: tuple[float, ...] | tuple[int, ...]) -> Tensor:
    """Floats as fp64, integers as int64, on the CPU even where another default device is set."""
    whole = all(isinstance(value, int) for value in values)
    return torch.tensor(values, dtype=torch.int64 if whole else torch.float64, device="cpu")


def exact_device(device: torch.device) -> torch.device:
    """Where fp64 for `device` is computed: there, or on the CPU where it has none (mps)."""
    return torch.device("cpu") if device.type == "mps" else device


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in for tensors of `dtype`: fp32 for halves, else its own."""
    return torch.promote_types(dtype, torch.float32)


def to_exact(ids: Tensor, inv_freq: Tensor) -> Tensor:
    """Positions (..., n) times inverse frequencies (pairs,): fp64 angles (..., n, pairs).

    With a position of its own for each pair, ids (..., n, pairs), use `to_exact_by_pair`.
    """
    return to_exact_by_pair(ids[..., None], inv_freq)


def to_exact_by_pair(ids: Tensor, inv_freq: Tensor) -> Tensor:
    """Positions (..., n, pairs) times inverse frequencies (pairs,): fp64 angles, same shape."""
    home = exact_device(ids.device)
    # First the move, then the cast: the device may not hold fp64 for a moment either.
    return ids.to(home).to(torch.float64) * inv_freq.to(home)


class ExactEncoding(PositionEncoding):
    """An encoding with fp64 constants that follow its device, and nothing else.

    The constants are no buffers: `.half()` and `.to(bfloat16)` leave them alone, they are not in
    the state dict, and after initialisation on the meta device they are still there, because
    they never were on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.constants: dict[str, Tensor] = {}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """As nn.Module moves parameters; constants take the device and keep dtype and values."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        # An integer probe tells the device without being cast.
        for name, held in self.constants.items():
            device = fn(torch.empty(0, dtype=torch.int64, device=held.device)).device
            if device.type != "meta":
                self.constants[name] = held.to(exact_device(device))
        return self
