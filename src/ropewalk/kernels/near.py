"""Cosines of every row of a table with a few queries, in one pass over the rows.

A row is read once, as it is stored: its products with all queries and its own square are summed
in float32 on the way, so there is neither a normalised copy of the table nor a table of norms to
keep. Where no compiled kernel serves an array, numpy does (`near_reference`). torch is not needed.
"""

from __future__ import annotations

import numpy as np

from ropewalk.errors import TensorError
from ropewalk.kernels import near_reference as reference
from ropewalk.kernels.arrays import BFLOAT16, Array
from ropewalk.kernels.cpu import near as compiled

ROUNDING = 2.0**-24
"""Half the distance from 1 to the next float32."""


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
    return reference.cosines(rows, queries)


def cosine_error(width: int) -> float:
    """The most that a float32 cosine of `cosines` differs from the exact one, at any width.

    By the bound on sums of n products, n u / (1 - n u) of the lengths' product (Higham, Accuracy
    and Stability of Numerical Algorithms, 2nd ed., section 3.1), in whatever order they are
    summed: once for the product, half of it for the norm, and a few roundings.
    """
    return 1.5 * (width + 8) * ROUNDING / (1 - (width + 8) * ROUNDING)
