"""Rows cut over ranks: the order that ring attention over packed sequences uses."""

from __future__ import annotations

import pytest
import torch

from ropewalk.errors import UsageError
from ropewalk.packing.layout import Layout
from ropewalk.packing.pack import pack
from ropewalk.packing.shards import contiguous_shard, zigzag_shard


def test_two_documents_on_two_ranks_take_the_published_rows() -> None:
    # With offsets [0, 4, 8], rank 0 must read rows 0, 3, 4, 7 of a table by token.
    layout = Layout.of([4, 4])
    assert zigzag_shard(layout, 2, 0).tolist() == [0, 3, 4, 7]
    assert zigzag_shard(layout, 2, 1).tolist() == [1, 2, 5, 6]
    positions = layout.position_ids()
    assert positions[zigzag_shard(layout, 2, 0)].tolist() == [0, 3, 0, 3]


@pytest.mark.parametrize("shard", [contiguous_shard, zigzag_shard])
def test_every_token_is_on_one_rank(shard: object) -> None:
    assert callable(shard)
    (row,) = pack([list(range(10, 15)), list(range(20, 27))], 24, multiple=6)
    parts = [shard(row.layout, 3, rank) for rank in range(3)]
    assert sorted(torch.cat(parts).tolist()) == list(range(24))
    assert {len(part) for part in parts} == {8}


def test_zigzag_gives_every_rank_the_same_causal_work() -> None:
    layout = Layout.of([16, 32])
    work = layout.mask().sum(1)
    done = [int(work[zigzag_shard(layout, 4, rank)].sum()) for rank in range(4)]
    assert max(done) == min(done)
    uneven = [int(work[contiguous_shard(layout, 4, rank)].sum()) for rank in range(4)]
    assert max(uneven) > min(uneven)


def test_what_does_not_divide_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"segment of 6 tokens .* pack with multiple=4"):
        zigzag_shard(Layout.of([4, 6]), 2, 0)
    with pytest.raises(UsageError, match="row of 10 tokens does not divide over 3 ranks"):
        contiguous_shard(Layout.of([10]), 3, 0)
    with pytest.raises(UsageError, match="rank 2 of 2"):
        zigzag_shard(Layout.of([4]), 2, 2)
