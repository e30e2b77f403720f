"""The one interface of every positional encoding, and how an encoding describes itself.

Position enters a transformer in three places, and each method here does nothing by default:
`embed` adds to the token vectors, `rotate` rotates queries and keys, `score_bias` adds to the
attention scores. A bias that is a sum of a query part and a key part is also handed over as
`score_features`, so that plain causal kernels compute it without a matrix of length x length.

Shapes. Token vectors x: (batch, sequence, d_model). Queries q: (batch, heads, q_length,
head_dim); keys k: (batch, kv_heads, k_length, head_dim). position_ids: integers (batch,
sequence) or (sequence,), with a leading axis dimension (axes, batch, sequence) for an encoding
that has several axes. They are always given: nothing reads position off a shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

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
