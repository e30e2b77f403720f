"""Rows cut over context-parallel ranks, with every token keeping its own position.

A rank's tokens are named by their places in the row, so that positions, documents and labels are
picked with the same index and none is made anew: `layout.position_ids()[index]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.packing.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor


def contiguous_shard(layout: Layout, ranks: int, rank: int) -> Tensor:
    """Places in the row (length / ranks,), int64: one slice of the row for each rank.

    With a causal mask the last rank has the most to do; `zigzag_shard` evens that out. Raises
    UsageError for a rank that is not there and a row that does not divide.
    """
    import torch

    _check(ranks, rank)
    if layout.length % ranks:
        raise UsageError(
            f"a row of {layout.length} tokens does not divide over {ranks} ranks; pack to a "
            f"multiple of {ranks}"
        )
    size = layout.length // ranks
    return torch.arange(rank * size, (rank + 1) * size)


def zigzag_shard(layout: Layout, ranks: int, rank: int) -> Tensor:
    """Places in the row (length / ranks,), int64: of every segment its chunks `rank` and, from
    the end, `rank` again, out of 2 * ranks, so that causal work is the same on every rank.

    This is the order in which ring attention over packed sequences expects them: documents of
    lengths (4, 4) on two ranks give [0, 3, 4, 7] and [1, 2, 5, 6]. Raises UsageError for a rank
    that is not there and a segment, padding included, that does not divide into 2 * ranks chunks
    (`pack(..., multiple=2 * ranks)` makes them so).
    """
    import torch

    _check(ranks, rank)
    chunks = 2 * ranks
    parts = []
    start = 0
    for size in layout.segments():
        if size % chunks:
            raise UsageError(
                f"a segment of {size} tokens does not divide into {chunks} chunks for {ranks} "
                f"ranks; pack with multiple={chunks}"
            )
        chunk = size // chunks
        for number in (rank, chunks - 1 - rank):
            first = start + number * chunk
            parts.append(torch.arange(first, first + chunk))
        start += size
    return torch.cat(parts)


def _check(ranks: int, rank: int) -> None:
    if ranks < 1 or not 0 <= rank < ranks:
        raise UsageError(f"rank {rank} of {ranks} is impossible: ranks count from 0")
