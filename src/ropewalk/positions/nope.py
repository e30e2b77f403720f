"""Attention that is told nothing of position (NoPE, 2305.19466)."""

from __future__ import annotations

from torch import Tensor

from ropewalk.positions.base import Description, PositionEncoding
from ropewalk.positions.checks import check_positions


class NoPosition(PositionEncoding):
    """Adds, rotates and biases nothing; a causal mask alone then tells early from late.

    Used in some layers of SmolLM3 and Llama 4. Position ids are checked like everywhere, so that
    a wrong one does not pass unseen because this layer has no use for it.
    """

    def embed(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """`x` itself. Raises PositionError for ids that are no positions."""
        check_positions(position_ids)
        return x

    def rotate(
        self,
        q: Tensor,
        k: Tensor,
        position_ids: Tensor,
        k_position_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`q` and `k` themselves. Raises PositionError for ids that are no positions."""
        check_positions(position_ids)
        if k_position_ids is not None:
            check_positions(k_position_ids, what="k_position_ids")
        return q, k

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="none",
            parameters="0",
            applied_to="nothing",
            encodes="nothing; a causal mask lets order be inferred",
            beyond_trained_length="accepted, degrades",
            typical_users="SmolLM3 and Llama 4, in some layers",
        )
