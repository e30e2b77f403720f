"""FIRE: a small network of the distance as a share of what the query can see (2310.04418).

b(i, j) = f((psi(i - j)) / psi(max(L, i))) with psi(x) = log(|c x| + 1) and f a network of one
hidden layer. The share stays between 0 and 1 at any length, which is why it extrapolates; below
the threshold L the distance is measured against L instead of the query's own position.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk.errors import UsageError
from ropewalk.positions.base import Description, PositionEncoding
from ropewalk.positions.relative import check_pair, widened

_MOST = 1e9
"""Times any position, single precision still holds it."""


class Fire(PositionEncoding):
    """A trained function of relative distance for `heads` heads; causal, as in the paper.

    `width` is the hidden layer's, `initial_threshold` L and `initial_c` c at the start; c and a
    multiplier of L are trained, and enter as |c| and |L|, as in the authors' code. Raises
    UsageError for sizes or starting values that are not above 0, or beyond all sense.
    """

    causal_only = True

    def __init__(
        self,
        heads: int,
        *,
        width: int = 32,
        initial_c: float = 0.1,
        initial_threshold: float = 512.0,
    ) -> None:
        super().__init__()
        for name, value in (
            ("heads", heads),
            ("width", width),
            ("initial_c", initial_c),
            ("initial_threshold", initial_threshold),
        ):
            if not 0 < value <= _MOST:
                raise UsageError(f"{name} is {value}; it must be above 0, and {_MOST:g} at most")
        self.heads = heads
        self.initial_c, self.initial_threshold = initial_c, initial_threshold
        self.hidden = nn.Linear(1, width)
        self.out = nn.Linear(width, heads)
        self.c = nn.Parameter(torch.empty(()))
        self.threshold_factor = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The starting c and threshold, and torch's usual start for the two layers."""
        nn.init.constant_(self.c, self.initial_c)
        nn.init.ones_(self.threshold_factor)
        self.hidden.reset_parameters()
        self.out.reset_parameters()

    def share(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """What the network is given: (q, k) or (batch, q, k), 0 at the query and at most 1."""
        c = widened(self.c, dtype)
        query, key = q_position_ids.to(c.dtype)[..., :, None], k_position_ids.to(c.dtype)
        threshold = (widened(self.threshold_factor, dtype) * self.initial_threshold).abs()
        distance = torch.log1p((c * (query - key[..., None, :])).abs())
        # An all-zero c or threshold would divide 0 by 0.
        smallest = torch.finfo(c.dtype).tiny
        whole = torch.log1p((c * torch.maximum(query, threshold)).abs())
        return distance / whole.clamp_min(smallest)

    def score_bias(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """(heads, q, k) or (batch, heads, q, k); holds width x q x k on the way."""
        check_pair(q_position_ids, k_position_ids)
        share = self.share(q_position_ids, k_position_ids, dtype)
        with torch.autocast(share.device.type, enabled=False):
            hidden = functional.linear(
                share[..., None],
                widened(self.hidden.weight, share.dtype),
                widened(self.hidden.bias, share.dtype),
            )
            bias = functional.linear(
                functional.relu(hidden),
                widened(self.out.weight, share.dtype),
                widened(self.out.bias, share.dtype),
            )
        return bias.movedim(-1, -3)

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="FIRE",
            parameters="(2 + heads) x width + heads + 2",
            applied_to="attention scores",
            encodes="relative distance as a share of the context",
            beyond_trained_length="defined at any length, extrapolates well",
            typical_users="research models",
        )
