"""Rotary tables kept from one call to the next, by everything that they depend on.

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

import torch
from torch import Tensor

from ropewalk.positions.turning import Tables
from ropewalk.short import short

MOST_ENTRIES = 8
MOST_BYTES = 256 * 2**20
"""What is kept at most; the tables that were longest unused go first."""


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
