"""The compiled pass over a table for its nearest rows: which arrays it serves, and the call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from struct import Struct

import numpy as np

from ropewalk.kernels.arrays import BFLOAT16, Array
from ropewalk.kernels.cpu.library import Native, loaded, threads

_CODES = {np.dtype(np.float32): 0, BFLOAT16: 1, np.dtype(np.float16): 2}
"""Dtypes as the library numbers them."""

_REQUEST = Struct("10q")
"""`NearRequest` of near.h."""


def serves(rows: Array) -> bool:
    """Whether the library is there and reads these rows (n, width): a row without gaps."""
    return (
        rows.dtype in _CODES
        and (rows.strides[1] == rows.itemsize or rows.shape[1] == 1)
        and rows.strides[0] % rows.itemsize == 0
        and isinstance(loaded(), Native)
    )


def cosines(rows: Array, queries: Array) -> tuple[Array, Array]:
    """As `ropewalk.kernels.cosines.cosines`, for rows that `serves` has said yes to."""
    found = loaded()
    assert isinstance(found, Native)  # noqa: S101 - `serves` said so
    queries = np.ascontiguousarray(queries)
    scores = np.empty((len(queries), len(rows)), np.float32)
    squares = np.empty(len(rows), np.float32)
    if scores.size:
        stride = rows.strides[0] // rows.itemsize
        shape = (rows.ctypes.data, len(rows), stride, _CODES[rows.dtype])
        asked = (queries.ctypes.data, *queries.shape)
        places = (scores.ctypes.data, squares.ctypes.data)
        _function(found.handle)(_REQUEST.pack(threads(), *shape, *asked, *places))
    return scores, squares


@cache
def _function(handle: ctypes.CDLL) -> Callable[[bytes], None]:
    """The function of the library that takes a packed request."""
    function = handle.ropewalk_near
    function.argtypes = [ctypes.c_char_p]
    function.restype = None
    taken: Callable[[bytes], None] = function
    return taken
