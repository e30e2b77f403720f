"""How position drowns identity: why the original transformer multiplies by sqrt(d_model).

Tables are usually drawn with variance near 1/d_model, so a row has a length of about 1. A
sinusoidal encoding has components of about 1 and a length of sqrt(d_model / 2). Their sum is
then nearly all position, unless the row is multiplied by sqrt(d_model) first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.inputs import InputPath, Scale
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.short import short

WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096)
PAIRS = 256
"""Pairs of tokens, and of positions, that each cosine is averaged over."""
FARTHEST = 512
"""Positions are drawn from 0 .. 511."""


@short
@dataclass(frozen=True, slots=True)
class Shares:
    """What an input vector says of its token, and what of its position.

    `identity`: the share of the squared length that comes from the row of the table.
    `other_token`: mean cosine between two different tokens at the same position.
    `other_position`: mean cosine between two places of the same token. Where identity leads,
    the second is the larger.
    """

    identity: float
    other_token: float
    other_position: float


@short
@dataclass(frozen=True, slots=True)
class ScaleRow:
    """One width: the factor sqrt(d_model), and the shares without and with it."""

    d_model: int
    factor: float
    plain: Shares
    scaled: Shares


def explain_scale(seed: int = 0, widths: tuple[int, ...] = WIDTHS) -> tuple[ScaleRow, ...]:
    """The shares for each width, of a fresh table with variance 1/d_model."""
    return tuple(_row(width, seed) for width in widths)


def _row(d_model: int, seed: int) -> ScaleRow:
    generator = torch.Generator().manual_seed(seed)
    table = torch.nn.Embedding(2 * PAIRS, d_model, dtype=torch.float64)
    with torch.no_grad():
        table.weight.normal_(std=1.0 / math.sqrt(d_model), generator=generator)
    positions = torch.stack(
        [torch.randperm(FARTHEST, generator=generator)[:PAIRS] for _ in range(2)]
    )
    scale = Scale.sqrt(d_model)
    encoding = Sinusoidal(d_model)
    plain = InputPath(table, encoding)
    return ScaleRow(
        d_model=d_model,
        factor=scale.factor,
        plain=_shares(plain, positions),
        scaled=_shares(InputPath(table, encoding, scale), positions),
    )


@torch.no_grad()
def _shares(path: InputPath, positions: Tensor) -> Shares:
    """`positions` (2, pairs): where each token stands, and where it stands another time."""
    tokens = torch.arange(PAIRS)
    here, there = positions
    steps = path.steps(tokens, here)
    added = steps.placed - steps.scaled
    token, position = steps.scaled.square().sum(), added.square().sum()
    apart = here != there
    return Shares(
        identity=float(token / (token + position)),
        other_token=_cosine(steps.placed, path(tokens + PAIRS, here)),
        other_position=_cosine(steps.placed[apart], path(tokens, there)[apart]),
    )


def _cosine(x: Tensor, y: Tensor) -> float:
    return float(torch.cosine_similarity(x, y, dim=-1).mean())
