"""Cosines of many rows with a few queries, on plain numpy: the reference and the fallback."""

from __future__ import annotations

import numpy as np

from ropewalk.kernels.arrays import Array, singles

_CHUNK_BYTES = 8 << 20
"""Of rows widened to float32 at a time, so that no second table is made."""


def cosines(rows: Array, queries: Array) -> tuple[Array, Array]:
    """As `ropewalk.kernels.near.cosines`."""
    count, width = rows.shape
    scores = np.empty((len(queries), count), np.float32)
    squares = np.empty(count, np.float32)
    step = max(1, _CHUNK_BYTES // (4 * max(width, 1)))
    # What float32 cannot hold shows in the squares, and rows without direction do, too.
    with np.errstate(all="ignore"):
        for start in range(0, count, step):
            chunk = singles(rows[start : start + step])
            place = slice(start, start + len(chunk))
            np.square(chunk).sum(axis=1, out=squares[place])
            np.matmul(queries, chunk.T, out=scores[:, place])
        scores /= np.sqrt(squares)
    return scores, squares
