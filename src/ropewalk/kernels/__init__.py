"""Kernels: the inner loops of rotary encoding, embedding and nearest rows, for CPUs and GPUs.

Each exists in plain torch or numpy (`reference`; for nearest rows `cosines`), which runs where no
compiled code does, and as compiled code (`cpu`, `triton`) that gives the same results and errors.
`rotate` and `lookup` are the ways in: they check what is given and choose what runs. Names load
when they are first used; nothing here imports torch before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropewalk.kernels.embedding import lookup
    from ropewalk.kernels.rotation import rotate

__all__ = ["lookup", "rotate"]

_HOMES = {"lookup": "ropewalk.kernels.embedding", "rotate": "ropewalk.kernels.rotation"}
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ropewalk.kernels' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
