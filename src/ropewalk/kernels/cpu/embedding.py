"""The compiled embedding kernels: which tensors they serve, and how they are called.

Nothing here falls back: whoever calls asks `looks_up`, `sums` or `holds_rows` first. Every
function has the meaning of its namesake in `ropewalk.kernels.embedding_reference`, errors
included.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Self

import torch
from torch import Tensor

from ropewalk.kernels.bounds import check_position_rows, check_token_rows
from ropewalk.kernels.cpu.library import native

_CODES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""Dtypes as the library numbers them."""

_PACKED, _SCATTERED, _STEP = 0, 1, 2
"""Where sums go, as the library numbers it: to row g, to the row that was looked up, off it."""

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


class _SumRequest(ctypes.Structure):
    """`SumRequest` of embedding.h."""

    _fields_ = (
        ("threads", ctypes.c_int64),
        *((name, _Rows) for name in ("grad", "out")),
        *((name, ctypes.c_int64) for name in ("order", "starts", "touched")),
        *((name, ctypes.c_int64) for name in ("groups", "width", "place")),
        *((name, ctypes.c_double) for name in ("scale", "rate")),
    )


def holds_rows(tensor: Tensor) -> bool:
    """Whether a table (rows, d) lies on the CPU with adjacent channels, in a served dtype."""
    return (
        native() is not None
        and tensor.is_cpu
        and tensor.dtype in _CODES
        and (tensor.stride(1) == 1 or tensor.shape[1] == 1)
    )


def looks_up(ids: Tensor, table: Tensor, added: Tensor | None, position_ids: Tensor | None) -> bool:
    """Whether `lookup` serves these tensors together."""
    if not (holds_rows(table) and ids.is_cpu and (position_ids is None or position_ids.is_cpu)):
        return False
    return added is None or (added.is_cpu and added.dtype in (torch.float32, table.dtype))


def sums(grad: Tensor, ids: Tensor, dtype: torch.dtype) -> bool:
    """Whether the gradient kernels serve tokens' gradients `grad`, summed into `dtype`."""
    if native() is None or not (grad.is_cpu and ids.is_cpu) or grad.dtype not in _CODES:
        return False
    return dtype in (torch.float32, grad.dtype)


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Fresh memory on the CPU, in huge pages where it is large and the system has them."""
    out = torch.empty(shape, dtype=dtype, device="cpu")
    if out.nbytes >= _HUGE_FROM:
        _handle().ropewalk_advise_huge_pages(out.data_ptr(), out.nbytes)
    return out


def lookup(
    ids: Tensor,
    table: Tensor,
    scale: float,
    added: Tensor | None,
    position_ids: Tensor | None,
    out: Tensor,
) -> None:
    """Fill `out`, contiguous (*ids.shape, d). Raises as the reference does."""
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


def gradient(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> Tensor:
    """The gradient of a whole table, (rows, d) in `dtype`."""
    groups = _Groups.of(ids, rows, padding_idx)
    out = empty((rows, grad.shape[-1]), dtype).zero_()
    groups.sum(grad, out, _SCATTERED, scale)
    return out


def gradient_rows(
    grad: Tensor, ids: Tensor, rows: int, padding_idx: int, scale: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The ids that were looked up (m,), ascending, and their rows of the gradient (m, d)."""
    groups = _Groups.of(ids, rows, padding_idx)
    out = empty((groups.count, grad.shape[-1]), dtype)
    groups.sum(grad, out, _PACKED, scale)
    return groups.touched[: groups.count].clone(), out


def sgd_(
    table: Tensor, ids: Tensor, grad: Tensor, lr: float, scale: float, padding_idx: int
) -> None:
    """One step of plain SGD on the rows of `ids`, in place."""
    # torch rounds the rate to the dtype of what it multiplies; so must a step equal to its own.
    lr = torch.tensor(lr, dtype=table.dtype, device="cpu").item()
    _Groups.of(ids, table.shape[0], padding_idx).sum(grad, table, _STEP, scale, lr)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Tokens grouped by id: those of row touched[g] are order[starts[g]:starts[g + 1]]."""

    order: Tensor
    starts: Tensor
    touched: Tensor
    count: int

    @classmethod
    def of(cls, ids: Tensor, rows: int, padding_idx: int) -> Self:
        """Raises RowError for an id that names none of `rows`."""
        flat = _integers(ids)
        tokens = flat.shape[0]
        order, starts, touched = (
            torch.empty(n, dtype=torch.int64, device="cpu") for n in (tokens, tokens + 1, tokens)
        )
        numbers = (flat.data_ptr(), tokens, rows, padding_idx)
        outputs = (order.data_ptr(), starts.data_ptr(), touched.data_ptr())
        count = _handle().ropewalk_group(*numbers, *outputs)
        if count < 0:
            check_token_rows(ids, rows)
        return cls(order, starts, touched, count)

    def sum(self, grad: Tensor, out: Tensor, place: int, scale: float, rate: float = 0.0) -> None:
        """Put scale times the sums of `grad` (..., d) by group where `place` says in `out`."""
        width = grad.shape[-1]
        if self.count == 0 or width == 0:
            return
        flat = grad.reshape(-1, width)
        if flat.stride(1) != 1:
            flat = flat.contiguous()
        request = _SumRequest(
            torch.get_num_threads(),
            _Rows.of(flat),
            _Rows.of(out),
            self.order.data_ptr(),
            self.starts.data_ptr(),
            self.touched.data_ptr(),
            self.count,
            width,
            place,
            scale,
            rate,
        )
        _handle().ropewalk_sum(ctypes.byref(request))


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
    word, address = ctypes.c_int64, ctypes.c_void_p
    handle.ropewalk_lookup.argtypes, handle.ropewalk_lookup.restype = [address], word
    handle.ropewalk_group.argtypes, handle.ropewalk_group.restype = [word] * 7, word
    handle.ropewalk_sum.argtypes, handle.ropewalk_sum.restype = [address], None
    handle.ropewalk_advise_huge_pages.argtypes = [word, word]
    handle.ropewalk_advise_huge_pages.restype = None
    return handle
