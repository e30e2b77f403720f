"""T5's relative bias: one trained number for each head and bucket of distances (1910.10683, 2.1).

Short distances have a bucket each; longer ones share buckets that widen with the logarithm, and
everything from `max_distance` on shares the last. Bucket borders are computed in integers, so no
rounding of a logarithm moves a distance from one bucket to the next.

T5 adds the bias in every layer from one table, does not scale scores by 1/sqrt(head_dim)
(`attention(..., scale=1.0)`), and has no bias in cross-attention: give that `NoPosition`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ropewalk.errors import UsageError
from ropewalk.positions.base import Description
from ropewalk.positions.relative import RelativeBias, widened


def bucket_of(distance: int, *, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """The bucket of a query that stands `distance` = i - j tokens after its key.

    Bidirectional: half of the buckets for keys before the query, half for keys after it.
    Causal: keys after the query share bucket 0 with the query itself.
    """
    first, side = 0, buckets
    if bidirectional:
        side = buckets // 2
        first = side if distance < 0 else 0
        distance = abs(distance)
    distance = max(distance, 0)
    exact = side // 2
    if distance < exact:
        return first + distance
    # floor(wider * ln(distance / exact) / ln(max_distance / exact)), without a logarithm.
    wider = side - exact
    step = 0
    while step < wider - 1 and (
        distance**wider * exact ** (step + 1) >= max_distance ** (step + 1) * exact**wider
    ):
        step += 1
    return first + exact + step


class T5Bias(RelativeBias):
    """A trained bias for each bucket of distance; `weight` is (buckets, heads).

    `weight` is laid out as T5's checkpoints have it (relative_attention_bias.weight). Encoders
    are `bidirectional`, decoders are not. Raises UsageError for sizes that leave no bucket
    for long distances.
    """

    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool,
    ) -> None:
        super().__init__(heads)
        sides = 2 if bidirectional else 1
        if buckets < 2 * sides or buckets % (2 * sides):
            raise UsageError(
                f"buckets is {buckets}; it is a multiple of {2 * sides}, half of each side for "
                "single distances and half for ranges (T5 has 32)"
            )
        if max_distance <= buckets // sides // 2:
            raise UsageError(
                f"max_distance is {max_distance}; with {buckets} buckets every distance below "
                f"{buckets // sides // 2} has its own, so it must be above that (T5 has 128)"
            )
        self.buckets, self.max_distance = buckets, max_distance
        self.bidirectional = bidirectional
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        # Neither parameter nor buffer: integers that no cast and no meta device may touch. From
        # max_distance on all distances share a bucket, so the table may end there.
        self._bucket_at = torch.tensor(
            [
                bucket_of(
                    distance,
                    buckets=buckets,
                    max_distance=max_distance,
                    bidirectional=bidirectional,
                )
                for distance in range(-max_distance, max_distance + 1)
            ],
            device="cpu",
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small random biases, standard deviation 0.02."""
        nn.init.normal_(self.weight, std=0.02)

    def _row(self, distance: Tensor) -> Tensor:
        """Where a table of all distances from -max_distance to max_distance has `distance`."""
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance i - j; the same shape, int64."""
        return self._bucket_at.to(distance.device, non_blocking=True)[self._row(distance)]

    def tables(
        self, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """The bias of each distance up to max_distance either way, (2 max_distance + 1, heads)."""
        return (widened(self.weight, dtype)[self._bucket_at.to(device, non_blocking=True)],)

    def bias_at(self, head: Tensor, distance: Tensor, *tables: Tensor) -> Tensor:
        """The trained number of the head and the distance's bucket; fp32, fp64 in fp64."""
        (by_distance,) = tables
        return by_distance[self._row(distance), head]

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        return (
            f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="T5 bias",
            parameters="buckets x heads",
            applied_to="attention scores",
            encodes="relative distance, by bucket",
            beyond_trained_length="defined; distances beyond the last bucket look alike",
            typical_users="T5, Flan-T5",
        )
