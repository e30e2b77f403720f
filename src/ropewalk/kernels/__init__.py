"""Kernels: the inner loops of rotary encoding, embedding and nearest rows, for CPUs and GPUs.

Each exists in plain torch or numpy (`reference`, `embedding_reference`, `near_reference`), which is
the reference and the fallback, and as compiled code (`cpu`, `triton`) that gives the same results
and the same errors. `rotary`, `embedding` and `near` are the ways in: they check, and choose what
runs; `ops` and `embedding_ops` are what torch's compiler and autograd see. Names load when they are
first used; nothing here imports torch before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropewalk.kernels.embedding import lookup, sgd_rows_
    from ropewalk.kernels.rotary import rotate, rotate_, rotate_one

__all__ = ["lookup", "rotate", "rotate_", "rotate_one", "sgd_rows_"]

_HOMES = {
    "lookup": "ropewalk.kernels.embedding",
    "rotate": "ropewalk.kernels.rotary",
    "rotate_": "ropewalk.kernels.rotary",
    "rotate_one": "ropewalk.kernels.rotary",
    "sgd_rows_": "ropewalk.kernels.embedding",
}
"""The module of each public name."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ropewalk.kernels' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
