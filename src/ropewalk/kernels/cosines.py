"""Cosines of every row of a table with a few queries, in one pass over the rows.

A row is read once, as it is stored: its products with all queries and its own square are summed
in float32 on the way, so there is neither a normalised copy of the table nor a table of norms to
keep. Where no compiled kernel serves an array, numpy does. torch is not needed.
"""

from __future__ import annotations

import numpy as np

from ropewalk.errors import TensorError
from ropewalk.kernels.arrays import BFLOAT16, Array, singles
from ropewalk.kernels.cpu import cosines as compiled

ROUNDING = 2.0**-24
"""Half the distance from 1 to the next float32."""

_CHUNK_BYTES = 8 << 20
"""Of rows widened to float32 at a time, so that no second table is made."""


def cosines(rows: Array, queries: Array) -> tuple[Array, Array]:
    """Cosines (q, n) of `rows` (n, width) with unit `queries` (q, width), and squares (n,).

    Rows are of any floating dtype, bfloat16 by its bits in uint16, queries float32 of length 1;
    both results are float32. A square is the sum of a row's squares: 0 for a row without
    direction, NaN or infinite where the row is, or where float32 cannot hold it; the row's
    cosines mean nothing then. The others are within `cosine_error(width)` of the exact ones.
    Raises UsageError for shapes or dtypes that do not fit.
    """
    if rows.ndim != 2 or queries.ndim != 2 or rows.shape[1] != queries.shape[1]:
        raise TensorError(
            f"rows are {rows.shape} and queries {queries.shape}; they are (rows, width) and "
            "(queries, width), of one width"
        )
    floating = rows.dtype.kind == "f" or rows.dtype == BFLOAT16
    if not floating or queries.dtype != np.float32:
        raise TensorError(
            f"rows are {rows.dtype} and queries {queries.dtype}; rows hold floating point "
            "numbers, queries float32"
        )
    if len(queries) and compiled.serves(rows):
        return compiled.cosines(rows, queries)
    return by_numpy(rows, queries)


def by_numpy(rows: Array, queries: Array) -> tuple[Array, Array]:
    """As `cosines`: the reference, and the fallback."""
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


def cosine_error(width: int) -> float:
    """The most that a float32 cosine of `cosines` differs from the exact one, at any width.

    By the bound on sums of n products, n u / (1 - n u) of the lengths' product (Higham, Accuracy
    and Stability of Numerical Algorithms, 2nd ed., section 3.1), in whatever order they are
    summed: once for the product, half of it for the norm, and a few roundings.
    """
    return 1.5 * (width + 8) * ROUNDING / (1 - (width + 8) * ROUNDING)
