"""Cosines and sines: what channels are rotated by, and where they are kept between calls.

A forward pass asks for the same tables once a layer, and generation or training asks for those of
the same positions again and again. Built in fp64 they cost more than the rotation itself. A table
is used again only for an equal encoding, length, dtype and device, and for positions that are
equal number by number, so nothing that changes is ever missed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.kernels.rotation import rotate
from ropewalk.rope.spec import RotarySpec
from ropewalk.short import short

MOST_ENTRIES = 8
MOST_BYTES = 256 * 2**20
"""What is kept at most; the tables that were longest unused go first."""


class Tables(NamedTuple):
    """Cosines and sines, each (batch, sequence, pairs) or (sequence, pairs), amplitude included.

    Worth keeping for one forward pass: they are the same in every layer of one encoding.
    """

    cos: Tensor
    sin: Tensor


@short
@dataclass(frozen=True, slots=True)
class RotatedHeads:
    """The query and the key heads that are rotated, by index; the others pass unchanged.

    Qwen2.5-Omni's token-to-wave model rotates head 0 alone: `RotatedHeads((0,), (0,))`.
    """

    query: tuple[int, ...]
    key: tuple[int, ...]


def apply_tables(
    q: Tensor,
    k: Tensor,
    q_tables: Tables,
    k_tables: Tables,
    rotary: RotarySpec,
    heads: RotatedHeads | None = None,
) -> tuple[Tensor, Tensor]:
    """q and k rotated, each by its tables: their first channels or, as `rotary` says, their last.

    One call of the kernel for both. Raises a UsageError for what does not fit.
    """
    if heads is not None:
        whole = apply_tables(q, k, q_tables, k_tables, rotary)
        return _only(heads.query, "query", q, whole[0]), _only(heads.key, "key", k, whole[1])
    if rotary.placement == "first":
        return rotate(q, k, *q_tables, rotary.layout, *k_tables)
    # Latent attention: the shared key may be given as its rotated part alone, which is all of it.
    q_still = max(q.shape[-1] - 2 * q_tables.cos.shape[-1], 0)
    k_still = max(k.shape[-1] - 2 * k_tables.cos.shape[-1], 0)
    q_last, k_last = rotate(q[..., q_still:], k[..., k_still:], *q_tables, rotary.layout, *k_tables)
    return (
        torch.cat((q[..., :q_still], q_last), dim=-1) if q_still else q_last,
        torch.cat((k[..., :k_still], k_last), dim=-1) if k_still else k_last,
    )


def _only(heads: tuple[int, ...], name: str, x: Tensor, rotated: Tensor) -> Tensor:
    """`rotated` in these heads and `x` in the others. Raises UsageError for heads not there."""
    if not all(0 <= head < x.shape[1] for head in heads):
        raise UsageError(
            f"{name} heads {list(heads)} are to be rotated, and there are {x.shape[1]}, counted "
            "from 0"
        )
    of_heads = [head in heads for head in range(x.shape[1])]
    chosen = torch.tensor(of_heads, dtype=torch.bool, device=x.device)
    return torch.where(chosen[:, None, None], rotated, x)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Tables with a copy of the positions they are for, and how often each had been written to."""

    ids: Tensor
    tables: Tables
    versions: tuple[int, int]

    @property
    def bytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in (self.ids, *self.tables))


@short
@dataclass
class TablesCache:
    """Tables by key and positions. Safe to use from several threads; holds `bytes_kept` bytes."""

    most_entries: int = MOST_ENTRIES
    most_bytes: int = MOST_BYTES
    _kept: OrderedDict[tuple[Hashable, ...], list[_Kept]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def bytes_kept(self) -> int:
        """How many bytes of memory the kept tables and positions take."""
        return sum(kept.bytes for row in self._kept.values() for kept in row)

    def clear(self) -> None:
        """Forget all tables."""
        with self._lock:
            self._kept.clear()

    def get(self, key: Hashable, position_ids: Tensor, build: Callable[[], Tables]) -> Tables:
        """The tables of `build()`, or those that it gave for an equal key and equal positions.

        `key` is all that they depend on beside the positions. They are shared: whoever writes to
        them is given new ones the next time, and so is everyone else. Positions on a device
        whose values would have to be waited for, and calls under a tracer, are always built.
        """
        if not _may_look(position_ids):
            return build()
        whole = (key, tuple(position_ids.shape), position_ids.dtype)
        with self._lock:
            for kept in self._kept.get(whole, ()):
                if kept.versions == _versions(kept.tables) and torch.equal(kept.ids, position_ids):
                    self._kept.move_to_end(whole)
                    return kept.tables
        tables = build()
        self._keep(whole, _Kept(position_ids.clone(), tables, _versions(tables)))
        return tables

    def _keep(self, whole: tuple[Hashable, ...], new: _Kept) -> None:
        if new.bytes > self.most_bytes:
            return
        with self._lock:
            row = self._kept.setdefault(whole, [])
            row[:] = [kept for kept in row if not torch.equal(kept.ids, new.ids)] + [new]
            self._kept.move_to_end(whole)
            while (
                sum(map(len, self._kept.values())) > self.most_entries
                or self.bytes_kept > self.most_bytes
            ):
                oldest = next(iter(self._kept))
                self._kept[oldest].pop(0)
                if not self._kept[oldest]:
                    del self._kept[oldest]


def _may_look(position_ids: Tensor) -> bool:
    """Whether positions can be compared here and now: plain numbers in this machine's memory."""
    return (
        not torch.compiler.is_compiling()
        and type(position_ids) is Tensor
        and position_ids.device.type == "cpu"
        and not torch.is_inference_mode_enabled()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._get_tracing_state() is None
        and not torch._C._functorch.is_functorch_wrapped_tensor(position_ids)
    )


def _versions(tables: Tables) -> tuple[int, int]:
    """How often each of two tables has been written to."""
    return tables.cos._version, tables.sin._version


ROTARY_TABLES = TablesCache()
"""The one that every rotary encoding of this process uses."""


def to_interleaved(weight: Tensor, heads: int) -> Tensor:
    """Query or key rows (heads * head_dim, ...) of a "half" model, reordered for "interleaved".

    Scores do not change when both projections are reordered; keys with their own head count.
    """
    rows: Tensor = weight.unflatten(0, (heads, 2, -1))
    return rows.transpose(1, 2).flatten(0, 2)


def to_half(weight: Tensor, heads: int) -> Tensor:
    """Query or key rows (heads * head_dim, ...) of an "interleaved" model, reordered for "half"."""
    rows: Tensor = weight.unflatten(0, (heads, -1, 2))
    return rows.transpose(1, 2).flatten(0, 2)
