"""Every encoding side by side: what it is, and three properties found by computing.

A row holds an encoding's own description and the figures that `positions.figures` measures on a
small module of it, with random parameters where it has some. The raw index, which is no encoding
of the library since it widens the vector, is measured the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ropewalk.explain.order import index
from ropewalk.positions.alibi import Alibi
from ropewalk.positions.axes import Axial
from ropewalk.positions.base import Description, PositionEncoding
from ropewalk.positions.figures import Figures, measure, measure_vectors
from ropewalk.positions.fire import Fire
from ropewalk.positions.kerple import KerpleLog, KerplePower
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.t5 import T5Bias
from ropewalk.positions.xpos import XPos
from ropewalk.rope import spec
from ropewalk.short import short

D_MODEL, HEADS, HEAD_DIM = 64, 8, 64
ROWS = 1024
"""Positions of the learned table."""

RAW_INDEX = Description(
    name="raw index",
    parameters="0",
    applied_to="input embedding, as one more component",
    encodes="absolute only",
    beyond_trained_length="defined, with values never trained on",
    typical_users="none",
)


@short
@dataclass(frozen=True, slots=True)
class EncodingRow:
    """One encoding: its description, and what was measured of it."""

    description: Description
    figures: Figures


def explain_encodings(seed: int = 0) -> tuple[EncodingRow, ...]:
    """A row for every encoding, and one for the raw index; `seed` draws their parameters."""
    # The caller's random numbers are not to depend on a table having been printed.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rows = [EncodingRow(row, measure(encoding)) for row, encoding in _described()]
    return (*rows, EncodingRow(RAW_INDEX, measure_vectors(index)))


def every_encoding() -> tuple[PositionEncoding, ...]:
    """A small module of each kind; of those with parameters, as they are drawn at the start."""
    rotary = spec.RotarySpec(HEAD_DIM, HEAD_DIM, 10_000.0)
    return (
        Sinusoidal(D_MODEL),
        Learned(ROWS, D_MODEL),
        Rotary(rotary),
        Rotary(rotary, axes=Axial()),
        XPos(rotary),
        Alibi(HEADS),
        T5Bias(HEADS, bidirectional=False),
        KerpleLog(HEADS),
        KerplePower(HEADS),
        Fire(HEADS),
        NoPosition(),
    )


def _described() -> list[tuple[Description, PositionEncoding]]:
    return [(_describe(encoding), encoding) for encoding in every_encoding()]


def _describe(encoding: PositionEncoding) -> Description:
    """Its own row; two axes do not turn a text, and are used by others."""
    row = encoding.describe()
    if not (isinstance(encoding, Rotary) and isinstance(encoding.axes, Axial)):
        return row
    return replace(
        row,
        name="RoPE, 2-D axial",
        applied_to="q and k, half of the pairs an axis",
        encodes="relative directly, on each axis",
        beyond_trained_length="accepted, degrades",
        typical_users="Pixtral and Qwen2-VL, for images",
    )
