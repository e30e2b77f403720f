"""Three properties of an encoding, found by computing and not by knowing.

Bounded: do its values stay as they are when positions grow? Unique: does every position have
an encoding of its own? Relative: is the encoding of p + k a fixed linear map of that of p, so
that a layer can read off distance? Each answer comes with the number it rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.errors import PositionError
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.learned import Learned
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.xpos import XPos
from ropewalk.short import short

Vectors = Callable[[Tensor], Tensor]
"""Positions (n,) int64 to their encodings (n, features) fp64."""

NEAR = 1024
"""Positions 0 .. 1023: what a model may be taken to have been trained on."""
FAR = (4_000, 65_000, 1_000_000)
"""Where runs of positions beyond it begin."""
RUN = 256
GROWTH = 1.01
"""Bounded: no value beyond is larger than 1.01 times the largest near."""
SAME = 1e-6
"""Distances and residuals below this share of the largest value are rounding."""
OFFSETS = (1, 7, 64)


@short
@dataclass(frozen=True, slots=True)
class Figures:
    """What was found; see the module for the questions.

    `largest` is the largest absolute value among positions 0 to `farthest`, the last position
    measured. `smallest_distance` is the smallest Euclidean distance between two encodings of
    positions within 0 .. 1023. `residual` is the largest error of the best linear map, fitted on
    every other position and tested on the rest, as a share of the largest value near.
    """

    bounded: bool
    largest: float
    farthest: int
    unique: bool
    smallest_distance: float
    relative_linear: bool
    residual: float


def measure(encoding: PositionEncoding) -> Figures:
    """The figures of an encoding; of a learned one as it stands, before or after training."""
    origin = torch.zeros(1, dtype=torch.int64)
    with torch.no_grad():
        # A bias -m i + m j is the product of (-m i, 1) and (1, m j): its map may use the 1.
        constant = encoding.score_bias(origin, origin) is not None
        return measure_vectors(vectors_of(encoding), constant=constant)


def measure_vectors(vectors: Vectors, *, constant: bool = False) -> Figures:
    """The figures of any map from positions to vectors, such as the raw index.

    `constant` grants the linear map a feature that is always 1. A map that refuses positions
    (PositionError) is measured as far as it goes.
    """
    near = vectors(torch.arange(_reach(vectors, NEAR)))
    largest_near = largest = float(near.abs().max())
    farthest = len(near) - 1
    for start in FAR:
        beyond = _try(vectors, torch.arange(start, start + RUN))
        if beyond is not None:
            largest = max(largest, float(beyond.abs().max()))
            farthest = start + RUN - 1
    smallest = float(torch.pdist(near).min()) if len(near) > 1 else float("inf")
    residual = max(_residual(near, offset, constant) for offset in OFFSETS)
    unique = smallest > SAME * max(largest_near, 1e-300)
    return Figures(
        bounded=largest <= GROWTH * largest_near,
        largest=largest,
        farthest=farthest,
        unique=unique,
        smallest_distance=smallest,
        # Encodings that do not tell positions apart map onto each other and say nothing.
        relative_linear=unique and residual <= SAME,
        residual=residual,
    )


def vectors_of(encoding: PositionEncoding) -> Vectors:
    """What an encoding makes of a position, wherever it enters.

    Added to the input: the vector added. Rotating q and k: a query and a key of ones, rotated, at
    the same position on every axis where there are several. Added to the scores: the bias, a
    feature a head, of a key that far behind the query at 1023, and beyond that of the key at 0
    behind a query there. Nothing: 0.
    """
    match encoding:
        case Sinusoidal() | Learned():
            return lambda ids: encoding.table(ids, torch.float64)
        case Rotary() | XPos():
            rotary = encoding.rotary if isinstance(encoding, Rotary) else encoding.rotation.rotary
            return lambda ids: _rotated_ones(encoding, ids, rotary.rotary_dim, rotary.head_dim)
        case _:
            return lambda ids: _bias(encoding, ids)


def _rotated_ones(encoding: PositionEncoding, ids: Tensor, rotated: int, head_dim: int) -> Tensor:
    ones = torch.ones(1, 1, len(ids), head_dim, dtype=torch.float64)
    axes = encoding.axis_count if isinstance(encoding, Rotary) else None
    q, k = encoding.rotate(ones, ones, ids if axes is None else ids.expand(axes, 1, -1))
    return torch.cat((q[0, 0, :, :rotated], k[0, 0, :, :rotated]), dim=-1)


def _bias(encoding: PositionEncoding, ids: Tensor) -> Tensor:
    # FIRE's bias goes by the query's own position too, so near ones share the last query.
    queries = ids.clamp(min=NEAR - 1)[:, None]
    bias = encoding.score_bias(queries, queries - ids[:, None])
    if bias is None:
        return torch.zeros(len(ids), 1, dtype=torch.float64)
    return bias.reshape(len(ids), -1).double()


def _try(vectors: Vectors, ids: Tensor) -> Tensor | None:
    """The encodings, or None where the encoding has none."""
    try:
        return vectors(ids)
    except PositionError:
        return None


def _reach(vectors: Vectors, most: int) -> int:
    """How many positions from 0 have an encoding, at most `most`."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if _try(vectors, torch.tensor([middle - 1])) is None:
            high = middle - 1
        else:
            low = middle
    if low == 0:
        raise PositionError("the encoding refuses position 0, so there is nothing to measure")
    return low


def _residual(near: Tensor, offset: int, constant: bool) -> float:
    """The error of the best M with v(p + offset) = v(p) M, as a share of the largest value."""
    before, after = near[:-offset], near[offset:]
    scale = float(near.abs().max())
    if scale == 0.0 or len(before) < 4:
        return 0.0
    if constant:
        before = torch.nn.functional.pad(before, (0, 1), value=1.0)
    fitted = torch.linalg.lstsq(before[::2], after[::2], driver="gelsd").solution
    return float((before[1::2] @ fitted - after[1::2]).abs().max()) / scale
