"""The compiled lookup of token vectors: which tensors it serves, and the call.

Nothing here falls back: whoever calls asks `serves` first. Results and errors are those of
`ropewalk.kernels.reference.lookup`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Self

import torch
from torch import Tensor

from ropewalk.kernels.bounds import check_position_rows, check_token_rows
from ropewalk.kernels.cpu.library import native

_CODES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""Dtypes as the library numbers them."""

_HUGE_FROM = 8 << 20
"""Bytes from which fresh memory asks for huge pages: below, page faults cost little."""

_PAST_CACHES_FROM = 32 << 20
"""Bytes from which a result is written past the caches, which would not hold it anyway."""


class _Rows(ctypes.Structure):
    """`Rows` of embedding.h."""

    _fields_ = tuple((name, ctypes.c_int64) for name in ("data", "count", "stride", "dtype"))

    @classmethod
    def of(cls, tensor: Tensor | None) -> Self:
        """A tensor (rows, d) with adjacent channels, or none."""
        if tensor is None:
            return cls(0, 0, 0, 0)
        return cls(tensor.data_ptr(), tensor.shape[0], tensor.stride(0), _CODES[tensor.dtype])


class _LookupRequest(ctypes.Structure):
    """`LookupRequest` of embedding.h."""

    _fields_ = (
        ("threads", ctypes.c_int64),
        *((name, _Rows) for name in ("table", "added", "out")),
        *((name, ctypes.c_int64) for name in ("ids", "positions", "count", "period", "width")),
        ("scale", ctypes.c_double),
        ("past_caches", ctypes.c_int64),
    )


def serves(ids: Tensor, table: Tensor, added: Tensor | None, position_ids: Tensor | None) -> bool:
    """Whether the library is there and looks these tensors up together: a table (rows, d) on the
    CPU with adjacent channels, all else beside it.
    """
    if native() is None or not (table.is_cpu and table.dtype in _CODES):
        return False
    if table.stride(1) != 1 and table.shape[1] != 1:
        return False
    if not (ids.is_cpu and (position_ids is None or position_ids.is_cpu)):
        return False
    return added is None or (added.is_cpu and added.dtype in (torch.float32, table.dtype))


def lookup(
    ids: Tensor,
    table: Tensor,
    scale: float,
    added: Tensor | None,
    position_ids: Tensor | None,
) -> Tensor:
    """(*ids.shape, d). Raises as the reference does."""
    width = table.shape[1]
    flat = _integers(ids)
    count = period = flat.shape[0]
    positions = None
    if position_ids is not None:
        positions = _integers(position_ids)
        period = positions.shape[0]
    elif added is not None:
        if added.dim() == 3 and (added.shape[0] == 1 or added.stride(0) == 0):
            added = added[0]
        added = added.reshape(-1, width)
        period = added.shape[0]
    if added is not None and added.stride(1) != 1:
        added = added.contiguous()
    out = torch.empty((*ids.shape, width), dtype=table.dtype, device="cpu")
    if out.nbytes >= _HUGE_FROM:
        _handle().ropewalk_advise_huge_pages(out.data_ptr(), out.nbytes)
    request = _LookupRequest(
        torch.get_num_threads(),
        _Rows.of(table),
        _Rows.of(added),
        _Rows.of(out.view(-1, width)) if count else _Rows.of(None),
        flat.data_ptr(),
        0 if positions is None else positions.data_ptr(),
        count,
        period,
        width,
        scale,
        out.nbytes >= _PAST_CACHES_FROM,
    )
    if not _handle().ropewalk_lookup(ctypes.byref(request)):
        check_token_rows(ids, table.shape[0])
        if added is not None and position_ids is not None:
            check_position_rows(position_ids, added.shape[0])
    return out


def _integers(ids: Tensor) -> Tensor:
    """As the library reads them: int64, flat, side by side."""
    return ids.long().reshape(-1).contiguous()


@cache
def _handle() -> ctypes.CDLL:
    """The library, its functions declared."""
    library = native()
    if library is None:
        raise AssertionError("an embedding kernel was called where native() is None")
    handle = library.handle
    word = ctypes.c_int64
    handle.ropewalk_lookup.argtypes, handle.ropewalk_lookup.restype = [ctypes.c_void_p], word
    handle.ropewalk_advise_huge_pages.argtypes = [word, word]
    handle.ropewalk_advise_huge_pages.restype = None
    return handle
