"""The compiled pass over a table for its nearest rows: which tensors it serves, and the call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from struct import Struct

import torch
from torch import Tensor

from ropewalk.kernels.cpu.library import native

_CODES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""Dtypes as the library numbers them."""

_REQUEST = Struct("10q")
"""`NearRequest` of near.h."""


@cache
def kernel() -> Callable[[bytes], None] | None:
    """The function of the library that takes a packed request; None where no library runs."""
    library = native()
    if library is None:
        return None
    function = library.handle.ropewalk_near
    function.argtypes = [ctypes.c_char_p]
    function.restype = None
    taken: Callable[[bytes], None] = function
    return taken


def serves(rows: Tensor) -> bool:
    """Whether the library is there and reads these rows (n, width): on the CPU, without gaps."""
    return (
        rows.is_cpu
        and rows.dtype in _CODES
        and (rows.stride(1) == 1 or rows.shape[1] == 1)
        and kernel() is not None
    )


def cosines(rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """As `ropewalk.kernels.near.cosines`, for rows that `serves` has said yes to."""
    call = kernel()
    assert call is not None  # noqa: S101 - `serves` said so
    queries = queries.contiguous()
    scores = torch.empty(len(queries), len(rows), device="cpu")
    squares = torch.empty(len(rows), device="cpu")
    if scores.numel():
        shape = (rows.data_ptr(), rows.shape[0], rows.stride(0), _CODES[rows.dtype])
        asked = (queries.data_ptr(), queries.shape[0], queries.shape[1])
        places = (scores.data_ptr(), squares.data_ptr())
        call(_REQUEST.pack(torch.get_num_threads(), *shape, *asked, *places))
    return scores, squares
