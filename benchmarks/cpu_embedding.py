"""Token vectors on the CPU: looked up, scaled and summed in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.cpu_timing import Reach, Row, measure, row
from ropewalk.kernels.embedding import lookup

OURS = "ropewalk"


def rows(batch: int, length: int, vocabulary: int, width: int, rounds: int) -> Iterator[Row]:
    """The row on looking up."""
    torch.manual_seed(0)
    ids = torch.randint(vocabulary, (batch, length))
    yield looked_up(ids, torch.randn(vocabulary, width), rounds)


def looked_up(ids: Tensor, table: Tensor, rounds: int) -> Row:
    """Lookup x sqrt(d) + position, beside `F.embedding` alone and the eager chain."""
    width = table.shape[1]
    position, scale = torch.randn(ids.shape[1], width), math.sqrt(width)
    gather, chain = "F.embedding alone", "eager chain"

    def eager() -> Tensor:
        return functional.embedding(ids, table) * scale + position

    def ours() -> Tensor:
        return lookup(ids, table, scale=scale, added=position)

    torch.testing.assert_close(ours(), eager(), rtol=1e-6, atol=1e-5)
    times = measure(
        {
            OURS: ours,
            gather: lambda: functional.embedding(ids, table),
            chain: eager,
        },
        rounds,
    )
    return row(
        "lookup x sqrt(d) + position", times,
        Reach("of F.embedding alone", times.ratio(OURS, gather), 1.3, at_least=False),
        Reach("times the eager chain", times.ratio(chain, OURS), 2.5, at_least=True),
        limit="page faults of the fresh result, which the gather alone pays too",
    )  # fmt: skip
