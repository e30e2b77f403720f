"""ALiBi as Falcon has it: slopes, positions and their products each rounded to bfloat16."""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.positions.alibi import Alibi
from ropewalk.positions.base import PositionEncoding, ScoreFeatures
from ropewalk.positions.exact import wide


class RoundedAlibi(PositionEncoding):
    """`factor` x bf16(bf16(m) x bf16(j)) on the scores of key j, in any dtype.

    What each query would take off for itself is the same for all of its keys, and is taken off
    here. From 257 tokens on positions are not told apart one by one; that is how these models
    were trained, and what they are given.
    """

    causal_only = True

    def __init__(self, heads: int, factor: float) -> None:
        super().__init__()
        self.heads, self.factor = heads, factor
        self.slopes = Alibi(heads).slopes

    def score_bias(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """(heads, q, k) or (batch, heads, q, k), in fp32 at least."""
        query, key = (
            self._rounded(ids).to(wide(dtype)) for ids in (q_position_ids, k_position_ids)
        )
        return self.factor * (key[..., None, :] - query[..., :, None])

    def score_features(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype,
        *,
        scale: float = 1.0,
    ) -> ScoreFeatures:
        """Two features, every head with keys of its own: (batch, heads, length, 2).

        Each is a number of bf16, so that where `factor` is `scale` nothing is rounded in any
        dtype that holds those.
        """
        query, key = self._rounded(q_position_ids), self._rounded(k_position_ids)
        query, key = (x if x.dim() == 3 else x[None] for x in (query, key))
        ratio = self.factor / scale
        q_columns = (-ratio * query, torch.full_like(query, ratio))
        k_columns = (torch.ones_like(key), key)
        return ScoreFeatures(
            torch.stack(q_columns, dim=-1).to(dtype), torch.stack(k_columns, dim=-1).to(dtype)
        )

    def _rounded(self, ids: Tensor) -> Tensor:
        """The rounded products, (heads, length) or (batch, heads, length), in fp32."""
        slopes = torch.tensor(self.slopes, device=ids.device).bfloat16().view(-1, 1)
        products: Tensor = slopes * ids.to(torch.bfloat16).unsqueeze(-2)
        return products.to(wide(torch.bfloat16))
