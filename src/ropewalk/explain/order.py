"""Does attention know order? "dog bites man" and "man bites dog" through one small layer.

Self-attention without position is permutation-equivariant: shuffled inputs give the same
outputs, shuffled alike, so the word in the middle cannot tell who bites. A causal mask would
tell early from late, so there is none here. All in fp64, all random numbers seeded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.attention import attention
from ropewalk.explain.raw_index import RawIndex, measure_raw_index
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.rope import spec
from ropewalk.short import short

SENTENCE = ("dog", "bites", "man")
SWAPPED = (2, 1, 0)
"""The same words as "man bites dog"."""
D_MODEL, HEADS = 32, 4


@short
@dataclass(frozen=True, slots=True)
class OrderRow:
    """One encoding: how far the outputs of the two sentences are apart, as shares.

    `unpermuted`: the largest distance between a word's two outputs, over the largest output
    vector; 0 means that outputs were shuffled as inputs were and not changed otherwise.
    `at_bites`: the same distance for "bites", which stands in the middle of both.
    """

    encoding: str
    unpermuted: float
    at_bites: float


@short
@dataclass(frozen=True, slots=True)
class Order:
    """Who bites whom, for each encoding, and why the index itself is not the answer."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    rows: tuple[OrderRow, ...]
    raw_index: RawIndex


def explain_order(seed: int = 0) -> Order:
    """Both sentences through one layer of self-attention, under no position and under two."""
    head_dim = D_MODEL // HEADS
    encodings: dict[str, PositionEncoding] = {
        "none": NoPosition(),
        "sinusoidal": Sinusoidal(D_MODEL),
        "rotary": Rotary(spec.RotarySpec(head_dim, head_dim, 10_000.0)),
    }
    return Order(
        first=SENTENCE,
        second=tuple(SENTENCE[i] for i in SWAPPED),
        rows=tuple(_row(name, encoding, seed) for name, encoding in encodings.items()),
        raw_index=measure_raw_index(seed),
    )


def _row(name: str, encoding: PositionEncoding, seed: int) -> OrderRow:
    layer = SelfAttention(D_MODEL, HEADS, seed)
    order = torch.tensor(SWAPPED)
    words = layer.draw(1, len(SENTENCE), D_MODEL)
    first = layer(words, encoding)[0]
    second = layer(words[:, order], encoding)[0]
    apart = torch.linalg.vector_norm(first[order] - second, dim=-1)
    largest = torch.linalg.vector_norm(first, dim=-1).max()
    middle = SENTENCE.index("bites")
    return OrderRow(name, float(apart.max() / largest), float(apart[middle] / largest))


class SelfAttention:
    """One layer of self-attention with random weights in fp64, every token seeing every other."""

    def __init__(self, d_model: int, heads: int, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._heads = heads
        self._weights = self.draw(4, d_model, d_model) / d_model**0.5

    def draw(self, *shape: int) -> Tensor:
        """Normal numbers, the next of this layer's seed."""
        return torch.randn(*shape, dtype=torch.float64, generator=self._generator)

    def __call__(self, x: Tensor, encoding: PositionEncoding) -> Tensor:
        """(batch, sequence, d_model) to the same, at positions 0, 1, 2, ..."""
        positions = torch.arange(x.shape[1])
        placed = encoding.embed(x, positions)
        q, k, v = (
            (placed @ weight).unflatten(-1, (self._heads, -1)).transpose(1, 2)
            for weight in self._weights[:3]
        )
        seen = attention(q, k, v, encoding, position_ids=positions, causal=False)
        out: Tensor = seen.transpose(1, 2).flatten(-2) @ self._weights[3]
        return out
