"""Does attention know order? And why a token's index is not simply appended to its vector.

"dog bites man" and "man bites dog" go through one small layer. Self-attention without position is
permutation-equivariant: shuffled inputs give the same outputs, shuffled alike, so the word in the
middle cannot tell who bites. A causal mask would tell early from late, so there is none here. All
in fp64, all random numbers seeded.

Appending the index widens the vector by one component that holds the position itself, so it fits no
encoding's interface. Three failures are measured: it decides every dot product, it leaves what
training has seen, and it holds no distance, which would have to be made by subtracting it from
another token's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.attention import attention
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.figures import Vectors, measure_vectors, vectors_of
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
class OrderDemo:
    """Who bites whom, for each encoding, and why the index itself is not the answer."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    rows: tuple[OrderRow, ...]
    raw_index: RawIndexFailures


def explain_order(seed: int = 0) -> OrderDemo:
    """Both sentences through one layer of self-attention, under no position and under two."""
    head_dim = D_MODEL // HEADS
    encodings: dict[str, PositionEncoding] = {
        "none": NoPosition(),
        "sinusoidal": Sinusoidal(D_MODEL),
        "rotary": Rotary(spec.RotarySpec(head_dim, head_dim, 10_000.0)),
    }
    return OrderDemo(
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


POSITION = 4_000
TRAINED = 1_024
"""Positions 0 .. 1023 were seen in training."""
D_MODEL = 64
QUERIES = 256
NEAR, FAR = (3, 1), (503, 501)
"""A query and a key two tokens apart, twice."""


@short
@dataclass(frozen=True, slots=True)
class Decides:
    """First failure: queries at `position` and keys before it, components of +-1 and the index.

    `content_largest` is the largest dot product of components among all pairs, `index_product`
    what the index adds at the query's own position. `latest_chosen` is the share of queries whose
    best key is simply the latest; `latest_without` the same share without the index.
    """

    position: int
    components: int
    content_largest: float
    index_product: float
    latest_chosen: float
    latest_without: float


@short
@dataclass(frozen=True, slots=True)
class Unseen:
    """Second failure: `position` of a model trained on 0 .. `trained` - 1.

    `largest`: the largest component at that position over the largest seen in training.
    `distance`: from its encoding to the nearest one of training, in units of the training
    encodings' own spread (root mean square distance from their mean).
    """

    encoding: str
    position: int
    trained: int
    largest: float
    distance: float


@short
@dataclass(frozen=True, slots=True)
class Relative:
    """Third failure: the dot product of two encodings the same distance apart, near and far.

    `residual`: the error of the best fixed linear map from the encoding of p to that of p + k, as
    a share of the largest value; 0 where distance can be read off linearly.
    """

    encoding: str
    near: float
    far: float
    residual: float


@short
@dataclass(frozen=True, slots=True)
class RawIndexFailures:
    """The three failures, the last two beside encodings that do not have them."""

    decides: Decides
    unseen: tuple[Unseen, ...]
    relative: tuple[Relative, ...]


def measure_raw_index(seed: int = 0) -> RawIndexFailures:
    """All three, by computation."""
    sinusoidal = vectors_of(Sinusoidal(D_MODEL))
    return RawIndexFailures(
        decides=_decides(seed),
        unseen=(_unseen("raw index", index), _unseen("sinusoidal", sinusoidal)),
        relative=(_relative_index(), _relative_rotary()),
    )


def index(position_ids: Tensor) -> Tensor:
    """Positions (n,) as the one component (n, 1) fp64 that would be appended."""
    return position_ids[:, None].double()


def _decides(seed: int) -> Decides:
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(2, (QUERIES + POSITION, D_MODEL), generator=generator) * 2.0 - 1.0
    q, k = signs[:QUERIES].double(), signs[QUERIES:].double()
    # Keys at 1 .. 4,000, the query at 4,000.
    content = q @ k.T
    indices = POSITION * index(torch.arange(1, POSITION + 1)).T
    latest = POSITION - 1
    return Decides(
        position=POSITION,
        components=D_MODEL,
        content_largest=float(content.abs().max()),
        index_product=float(indices[0, latest]),
        latest_chosen=float(((content + indices).argmax(dim=1) == latest).double().mean()),
        latest_without=float((content.argmax(dim=1) == latest).double().mean()),
    )


def _unseen(name: str, vectors: Vectors) -> Unseen:
    seen = vectors(torch.arange(TRAINED))
    new = vectors(torch.tensor([POSITION]))
    spread = (seen - seen.mean(dim=0)).square().sum(dim=1).mean().sqrt()
    nearest = torch.linalg.vector_norm(seen - new, dim=1).min()
    return Unseen(
        encoding=name,
        position=POSITION,
        trained=TRAINED,
        largest=float(new.abs().max() / seen.abs().max()),
        distance=float(nearest / spread),
    )


def _relative_index() -> Relative:
    near, far = (float(query * key) for query, key in (NEAR, FAR))
    return Relative("raw index", near, far, measure_vectors(index).residual)


def _relative_rotary() -> Relative:
    """One pair at 1 radian a token: q = k = (1, 0), so the product is the cosine of the gap."""
    encoding = Rotary(spec.RotarySpec(2, 2, 10_000.0))
    near, far = (_product(encoding, *pair) for pair in (NEAR, FAR))
    return Relative("rotary", near, far, measure_vectors(vectors_of(encoding)).residual)


def _product(encoding: PositionEncoding, query: int, key: int) -> float:
    unit = torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 1, 1, 2)
    q, k = encoding.rotate(unit, unit, torch.tensor([query]), torch.tensor([key]))
    return float((q * k).sum())
