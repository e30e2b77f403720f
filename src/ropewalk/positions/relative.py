"""Biases that depend on nothing but the head and the distance from key to query."""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.kernels.reference import wide
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.checks import check_axes, check_positions


class RelativeBias(PositionEncoding):
    """A bias b(head, i - j) on the score of query position i and key position j.

    A subclass says the rule once: `tables` computes what there is for each head, once a call,
    and `bias_at` looks it up element by element. The dense matrix here and a fused kernel
    elsewhere both call these two.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        if heads < 1:
            raise UsageError(f"heads is {heads}; give the number of query heads, 1 or more")
        self.heads = heads

    def tables(
        self, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """What `bias_at` looks up, on `device`, in `dtype` or wider, with gradients to parameters.

        `dtype` is fp32 or fp64.
        """
        raise NotImplementedError

    def bias_at(self, head: Tensor, distance: Tensor, *tables: Tensor) -> Tensor:
        """The bias of `head` (integers from 0) at `distance` i - j, broadcast; as the tables."""
        raise NotImplementedError

    def score_bias(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """(heads, q, k), or (batch, heads, q, k) where either has a batch; see the base class."""
        check_pair(q_position_ids, k_position_ids)
        distance = q_position_ids.long()[..., :, None] - k_position_ids.long()[..., None, :]
        head = torch.arange(self.heads, device=distance.device).view(-1, 1, 1)
        return self.bias_at(
            head, distance.unsqueeze(-3), *self.tables(distance.device, wide(dtype))
        )


def check_pair(
    q_position_ids: Tensor,
    k_position_ids: Tensor,
    high: int | None = None,
    why: str = "positions count tokens from 0",
) -> None:
    """Refuse what is no positions of one axis on either side, or above `high`."""
    for what, ids in (("q_position_ids", q_position_ids), ("k_position_ids", k_position_ids)):
        check_axes(ids, None, what)
        check_positions(ids, what=what, high=high, why=why)


def widened(values: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """`values` in `dtype` or wider, fp32 at least: a bias in 16 bits is exact only to 256."""
    return values.to(torch.promote_types(values.dtype, wide(dtype)))
