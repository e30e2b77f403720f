"""Analogies: what is to c as b is to a, by sums or by products of cosines.

3CosAdd (Mikolov, Yih and Zweig 2013) takes the row nearest to the mean of the unit vectors, those
to subtract with weight -1. 3CosMul (Levy and Goldberg 2014, section 6) takes the row with the
largest product of its cosines with what is added, each moved to 0..1, over that with what is
subtracted, plus 0.001 in their paper and 0.000001 in gensim, whose figures people know. Inputs
are never the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.tables.near import DECIMALS, Neighbours, check_k, neighbours, stretches, unit_rows
from ropewalk.tables.words import mean_direction

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

EPSILON = 1e-6
"""Keeps the quotient of 3CosMul finite."""

_TILE_ROWS = 1024


def cos_add(
    table: EmbeddingTable | Tensor,
    plus: Tensor,
    minus: Tensor,
    k: int,
    *,
    exclude: Sequence[int],
    among: Tensor | None = None,
) -> Neighbours:
    """The `k` rows nearest to the mean of the unit vectors of `plus` and of minus `minus`.

    Both are (n, width), and need not be of unit length. Raises as `neighbours`, and UsageError
    where the mean vanishes.
    """
    import torch

    units = unit_rows(torch.cat([plus.double(), minus.double()]))
    mean = mean_direction(units, [1.0] * len(plus) + [-1.0] * len(minus))
    return neighbours(table, mean, k, exclude=[list(exclude)], among=among)


def cos_mul(
    table: EmbeddingTable | Tensor,
    plus: Tensor,
    minus: Tensor,
    k: int,
    *,
    exclude: Sequence[int],
    among: Tensor | None = None,
) -> Neighbours:
    """The `k` rows with the largest product of cosines; scores are that quotient, no cosines.

    Arguments and errors are those of `cos_add`. The whole pass is made in double precision.
    """
    import torch

    rows = table.shape[0]
    check_k(k, rows)
    units = unit_rows(torch.cat([plus.double(), minus.double()]))
    scores = torch.full((rows,), -torch.inf, dtype=torch.float64)
    squares = torch.empty(rows, dtype=torch.float64)
    for start, tile in stretches(table, _TILE_ROWS):
        wide = tile.double()
        norms = torch.linalg.vector_norm(wide, dim=1)
        near = (1 + units @ wide.T / norms) / 2
        place = slice(start, start + len(tile))
        squares[place] = norms
        scores[place] = near[: len(plus)].prod(0) / (near[len(plus) :].prod(0) + EPSILON)
    asked = torch.ones(rows, dtype=torch.bool) if among is None else among
    zero, lost = asked & (squares == 0), asked & ~torch.isfinite(squares)
    usable = asked & ~zero & ~lost
    ranked = int(usable.sum())
    usable[list(exclude)] = False
    if int(usable.sum()) < k:
        raise UsageError(f"{k} rows were asked for, and {int(usable.sum())} can be compared")
    scores = torch.where(usable, torch.round(scores, decimals=DECIMALS), -torch.inf)
    # A stable sort leaves equal scores in the order of their ids.
    best = torch.argsort(scores, descending=True, stable=True)[:k]
    zeros, losses = (tuple(mask.nonzero()[:, 0].tolist()) for mask in (zero, lost))
    return Neighbours(best[None], scores[best][None], zeros, losses, ranked)
