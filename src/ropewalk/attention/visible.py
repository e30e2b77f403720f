"""Which keys a query sees: order, documents, windows and a mask, as one rule.

The rule is said once, element by element, in `Visible.at`. A dense mask and a fused kernel's
block mask are both made from it. `real_tokens` and `query_mask` read the masks that transformers
hands to a model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.errors import PositionError, TensorError
from ropewalk.kernels.bounds import note_passed, passed, reads_values
from ropewalk.rope.spec import Window
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """The keys that each query sees.

    `q_positions` and `k_positions` are (rows, length), where rows is 1 or the batch, and so are
    the segment ids. `same_tokens`: keys and queries are the same tokens, in the order of the
    row. `mask`: bools that broadcast to (batch, heads, q, k), True where a key may be seen.
    """

    q_positions: Tensor
    k_positions: Tensor
    same_tokens: bool
    causal: bool
    window: Window | None = None
    q_segment_ids: Tensor | None = None
    k_segment_ids: Tensor | None = None
    mask: Tensor | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing but the order of the row, if that, keeps a key from a query."""
        ordered = self.same_tokens or not self.causal
        return ordered and self.window is None and self.q_segment_ids is None and self.mask is None

    def sizes(self, batch: int) -> list[int] | None:
        """The documents' tokens, all rows of the batch end to end, where they alone keep a causal
        row's keys from its queries and each lies in one piece; None elsewhere, and for ids whose
        values are not to be read.
        """
        segment_ids = self.q_segment_ids
        if not (self.same_tokens and self.causal) or segment_ids is None:
            return None
        if self.window is not None or self.mask is not None or not reads_values(segment_ids):
            return None
        found = []
        for row in segment_ids:
            pieces, sizes = row.unique_consecutive(return_counts=True)
            if len(pieces.unique()) < len(pieces):
                return None
            found += sizes.tolist()
        return found * (batch // segment_ids.shape[0])

    @property
    def rows(self) -> int:
        """In how many rows of the batch the rule differs: 1, or the batch."""
        parts = (
            self.q_positions,
            self.k_positions,
            self.q_segment_ids,
            self.k_segment_ids,
            self.mask,
        )
        return max(part.shape[0] for part in parts if part is not None)

    @property
    def heads(self) -> int:
        """In how many heads the rule differs: 1, or all of them."""
        return 1 if self.mask is None else self.mask.shape[1]

    def at(self, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Whether query number `query` of a row sees key number `key`; indices broadcast."""
        q_at, k_at = _take(self.q_positions, row, query), _take(self.k_positions, row, key)
        seen = torch.ones_like(q_at == k_at)
        if self.causal:
            # Documents may each count from 0, so within one row its own order is what holds.
            seen = seen & (key <= query if self.same_tokens else k_at <= q_at)
        if self.window is not None and self.window.kind == "chunked":
            size = self.window.size
            chunk = torch.div(q_at, size, rounding_mode="floor")
            seen = seen & (chunk == torch.div(k_at, size, rounding_mode="floor"))
        elif self.window is not None:
            seen = seen & ((q_at - k_at).abs() < self.window.reach)
        if self.q_segment_ids is not None and self.k_segment_ids is not None:
            segment_ids = _take(self.k_segment_ids, row, key)
            seen = seen & (_take(self.q_segment_ids, row, query) == segment_ids)
        if self.mask is not None:
            sizes = zip(self.mask.shape, (row, head, query, key), strict=True)
            seen = seen & self.mask[tuple(at if size > 1 else 0 for size, at in sizes)]
        return seen

    def distance(self, row: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """How far after the key the query stands, in positions; indices broadcast."""
        return _take(self.q_positions, row, query) - _take(self.k_positions, row, key)

    def matrix(self) -> Tensor:
        """The rule as bools, (rows, heads, q, k) with 1 for rows or heads that do not differ."""
        q_length, k_length = self.q_positions.shape[-1], self.k_positions.shape[-1]
        device = self.q_positions.device
        row = torch.arange(self.rows, device=device).view(-1, 1, 1, 1)
        head = torch.arange(self.heads, device=device).view(-1, 1, 1)
        query = torch.arange(q_length, device=device).view(-1, 1)
        seen = self.at(row, head, query, torch.arange(k_length, device=device))
        return seen.expand(self.rows, self.heads, q_length, k_length)


def _take(values: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """`values` (rows, length) at the indices; one row serves every row."""
    return values[row, column] if values.shape[0] > 1 else values[0, column]


def check_order(position_ids: Tensor) -> None:
    """Refuse positions that do not increase along the row, where its order is all that counts.

    Read eagerly, the error names the place; compiled, the assert comes from the device. Raises
    PositionError.
    """
    if position_ids.dim() == 3 or position_ids.is_meta or passed(position_ids, "rising"):
        return
    stays = position_ids[..., 1:] <= position_ids[..., :-1]
    remedy = (
        "a causal mask in the order of the row needs increasing positions; give `segment_ids` for "
        "packed rows, `mask` for padding, or `k_position_ids` to go by positions alone"
    )
    if not reads_values(position_ids):
        torch._assert_async(~stays.any(), f"position_ids do not increase; {remedy}")
    elif bool(stays.any()):
        place = tuple(int(index) for index in stays.nonzero()[0])
        before, after = int(position_ids[place]), int(position_ids[*place[:-1], place[-1] + 1])
        row = f"row {place[0]}, " if len(place) > 1 else ""
        raise PositionError(
            f"position_ids go from {before} to {after} at {row}column {place[-1] + 1}; {remedy}"
        )
    note_passed(position_ids, "rising")


def real_tokens(attention_mask: Tensor | None, batch: int, total: int) -> Tensor | None:
    """Bools (batch, total), True at real tokens; None where nothing is padding.

    Raises TensorError for another shape.
    """
    if attention_mask is None:
        return None
    if tuple(attention_mask.shape) != (batch, total):
        raise TensorError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; it is ({batch}, {total}): "
            "a row for each sequence, and all of its tokens, cached ones included"
        )
    real = attention_mask != 0
    return None if bool(real.all()) else real


def query_mask(attention_mask: Tensor, length: int, total: int) -> Tensor:
    """A mask for every query (batch or 1, heads or 1, length, total) as bools: True where it may
    look. Given as bools, or as numbers that are added to scores: 0 there. Raises TensorError.
    """
    if tuple(attention_mask.shape[2:]) != (length, total):
        raise TensorError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; with four dimensions it is "
            f"(batch, heads, {length}, {total})"
        )
    return attention_mask if attention_mask.dtype == torch.bool else attention_mask == 0
