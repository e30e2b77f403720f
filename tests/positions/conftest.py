"""What tests of encodings share: exact angles by mpmath, and a rotation written from the paper."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import pytest
from torch import Tensor

Exact = Callable[[int, float, int], list[tuple[float, float]]]
Loop = Callable[[Tensor, int, list[float], str], Tensor]


@pytest.fixture(scope="session")
def exact_waves() -> Exact:
    """exact_waves(position, base, dim): (cos, sin) of every pair, to 50 digits, as doubles."""

    def waves(position: int, base: float, dim: int) -> list[tuple[float, float]]:
        with mpmath.workdps(50):
            angles = [
                position * mpmath.power(mpmath.mpf(base), mpmath.mpf(-2 * i) / dim)
                for i in range(dim // 2)
            ]
            return [(float(mpmath.cos(a)), float(mpmath.sin(a))) for a in angles]

    return waves


@pytest.fixture(scope="session")
def rotated_by_hand() -> Loop:
    """rotated_by_hand(x, position, inv_freq, layout): one vector (head_dim,), pair by pair."""

    def rotated(x: Tensor, position: int, inv_freq: list[float], layout: str) -> Tensor:
        out = x.double().clone()
        pairs = len(inv_freq)
        for i, frequency in enumerate(inv_freq):
            first, second = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)
            cos, sin = math.cos(position * frequency), math.sin(position * frequency)
            a, b = float(x[first]), float(x[second])
            out[first], out[second] = a * cos - b * sin, a * sin + b * cos
        return out

    return rotated
