"""Packed rows stacked for a model: ids, positions, labels and what keeps documents apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.packing.layout import Counting, Layout, VarLen, varlen
from ropewalk.packing.pack import PackedRow
from ropewalk.short import short

if TYPE_CHECKING:
    from torch import Tensor


@short
@dataclass(frozen=True)
class PackedBatch:
    """Equally long rows: each tensor (batch, length), int64. `segment_ids` is for
    `ropewalk.attention`, `varlen` for kernels over rows laid end to end, `layouts` for the rest.
    """

    input_ids: Tensor
    position_ids: Tensor
    labels: Tensor
    segment_ids: Tensor
    varlen: VarLen
    layouts: tuple[Layout, ...]


def stack(rows: Sequence[PackedRow], counting: Counting = "reset") -> PackedBatch:
    """A batch of rows. Raises UsageError for none, or for rows of several lengths."""
    import torch

    lengths = {row.layout.length for row in rows}
    if len(lengths) != 1:
        raise UsageError(
            f"rows of lengths {sorted(lengths)} do not make a batch: it takes one length, and at "
            "least one row"
        )
    layouts = tuple(row.layout for row in rows)
    return PackedBatch(
        input_ids=torch.stack([torch.from_numpy(row.token_ids).long() for row in rows]),
        position_ids=torch.stack([layout.position_ids(counting) for layout in layouts]),
        labels=torch.stack([row.labels() for row in rows]),
        segment_ids=torch.stack([layout.segment_ids() for layout in layouts]),
        varlen=varlen(layouts),
        layouts=layouts,
    )
