"""The one interface of every positional encoding, and how an encoding describes itself.

Position enters a transformer in three places, and each method here does nothing by default:
`embed` adds to the token vectors, `rotate` rotates queries and keys, `score_bias` adds to the
attention scores. A bias that is a sum of a query part and a key part is also handed over as
`score_features`, so that plain causal kernels compute it without a matrix of length x length.

Shapes. Token vectors x: (batch, sequence, d_model). Queries q: (batch, heads, q_length,
head_dim); keys k: (batch, kv_heads, k_length, head_dim). position_ids: integers (batch,
sequence) or (sequence,), with a leading axis dimension (axes, batch, sequence) for an encoding
that has several axes. They are always given: nothing reads position off a shape.

An angle is a position times an inverse frequency. In fp32 the product alone is off by up to 4e-2
rad at position 1,048,576; in fp64 it is exact to 1e-10, so that sine and cosine, rounded once to
fp32, are within 6e-8. Hence `ExactEncoding`, whose constants no cast of a module can spoil.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from ropewalk.errors import UsageError
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class ScoreFeatures:
    """A bias as a product: bias[h, i, j] = scale * sum over f of query[h, i, f] * key[j, f].

    `query`: (batch, heads, q_length, features); `key`: (batch, 1, k_length, features), the same
    for every head; batch is 1 where positions have none. They are put before the head's own
    channels. The equation holds up to a constant for each query, which no softmax sees.
    """

    query: Tensor
    key: Tensor


@short
@dataclass(frozen=True, slots=True)
class Description:
    """A row of the comparison table: what an encoding is, in the field's words."""

    name: str
    parameters: str
    applied_to: str
    encodes: str
    beyond_trained_length: str
    typical_users: str


class PositionEncoding(nn.Module):
    """Base of all encodings; by itself it says nothing of position.

    `causal_only` is True where the encoding is right only for keys no later than their query.
    """

    causal_only: bool = False

    def embed(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """Token vectors (batch, sequence, d_model) with position added; the same dtype."""
        del position_ids
        return x

    def rotate(
        self,
        q: Tensor,
        k: Tensor,
        position_ids: Tensor,
        k_position_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys rotated by their positions; the same shapes and dtypes.

        `k_position_ids` are the keys' own positions where they differ from the queries', as with
        a key-value cache that holds un-rotated keys.
        """
        del position_ids, k_position_ids
        return q, k

    def score_bias(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor | None:
        """What is added to the scores: (heads, q, k) or (batch, heads, q, k), or None.

        Computed in `dtype`, fp32 at least, or in that of the parameters where it is wider.
        """
        del q_position_ids, k_position_ids, dtype
        return None

    def score_features(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype,
        *,
        scale: float = 1.0,
    ) -> ScoreFeatures | None:
        """The same bias as features in `dtype`, None where it does not factor.

        `scale` is what the scores are multiplied by afterwards, 1/sqrt(head_dim) as a rule.
        """
        del q_position_ids, k_position_ids, dtype, scale
        return None

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        raise NotImplementedError


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


class ByLayerType(nn.Module):
    """One encoding for each layer type: Gemma 3's two bases, SmolLM3's layers without position.

    `by_type["full_attention"]` is that type's encoding. Encodings with parameters are parameters
    of this module. Raises UsageError for no types at all, and for one that is not here.
    """

    def __init__(self, encodings: Mapping[str, PositionEncoding]) -> None:
        super().__init__()
        if not encodings:
            raise UsageError("no layer type has an encoding; give at least one")
        self.types = tuple(encodings)
        # A list, because the keys of a ModuleDict may not hold dots.
        self.encodings = nn.ModuleList(encodings.values())

    def __getitem__(self, layer_type: str) -> PositionEncoding:
        if layer_type not in self.types:
            raise UsageError(
                f"no encoding for layers of type {layer_type!r}; there are {', '.join(self.types)}"
            )
        encoding = self.encodings[self.types.index(layer_type)]
        if not isinstance(encoding, PositionEncoding):
            raise UsageError(f"{layer_type!r} holds {type(encoding).__name__}, no encoding")
        return encoding


def constant(values: tuple[float, ...] | tuple[int, ...]) -> Tensor:
    """Floats as fp64, integers as int64, on the CPU even where another default device is set."""
    whole = all(isinstance(value, int) for value in values)
    return torch.tensor(values, dtype=torch.int64 if whole else torch.float64, device="cpu")


def exact_device(device: torch.device) -> torch.device:
    """Where fp64 for `device` is computed: there, or on the CPU where it has none (mps)."""
    return torch.device("cpu") if device.type == "mps" else device


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
