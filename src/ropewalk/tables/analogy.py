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

import numpy as np

from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import Array, doubles
from ropewalk.tables.search import DECIMALS, Found, check_k, search, stretches, unit_rows
from ropewalk.tables.words import mean_direction

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable

EPSILON = 1e-6
"""Keeps the quotient of 3CosMul finite."""

_TILE_ROWS = 1024


def cos_add(
    table: EmbeddingTable | Array,
    plus: Array,
    minus: Array,
    k: int,
    *,
    exclude: Sequence[int],
    among: Array | None = None,
) -> Found:
    """The `k` rows nearest to the mean of the unit vectors of `plus` and of minus `minus`.

    Both are (n, width), and need not be of unit length. Raises as `search`, and UsageError
    where the mean vanishes.
    """
    units = unit_rows(np.concatenate([plus, minus]))
    mean = mean_direction(units, [1.0] * len(plus) + [-1.0] * len(minus))
    return search(table, mean, k, exclude=[list(exclude)], among=among)


def cos_mul(
    table: EmbeddingTable | Array,
    plus: Array,
    minus: Array,
    k: int,
    *,
    exclude: Sequence[int],
    among: Array | None = None,
) -> Found:
    """The `k` rows with the largest product of cosines; scores are that quotient, no cosines.

    Arguments and errors are those of `cos_add`. The whole pass is made in double precision.
    """
    rows = table.shape[0]
    check_k(k, rows)
    units = unit_rows(np.concatenate([plus, minus]))
    scores, norms = np.full(rows, -np.inf), np.empty(rows)
    # Rows without direction give no score, and are told by their norms.
    with np.errstate(all="ignore"):
        for start, tile in stretches(table, _TILE_ROWS):
            wide = doubles(tile)
            place = slice(start, start + len(tile))
            norms[place] = np.sqrt(np.square(wide).sum(axis=1))
            near = (1 + units @ wide.T / norms[place]) / 2
            scores[place] = near[: len(plus)].prod(0) / (near[len(plus) :].prod(0) + EPSILON)
    asked = np.ones(rows, np.bool_) if among is None else among
    zero, lost = asked & (norms == 0), asked & ~np.isfinite(norms)
    usable = asked & ~zero & ~lost
    ranked = int(usable.sum())
    usable[list(exclude)] = False
    if int(usable.sum()) < k:
        raise UsageError(f"{k} rows were asked for, and {int(usable.sum())} can be compared")
    scores = np.where(usable, np.round(scores, DECIMALS), -np.inf)
    # A stable sort leaves equal scores in the order of their ids.
    best = np.argsort(-scores, kind="stable")[:k]
    zeros, losses = (tuple(np.flatnonzero(mask).tolist()) for mask in (zero, lost))
    return Found(best[None], scores[best][None], zeros, losses, ranked)
