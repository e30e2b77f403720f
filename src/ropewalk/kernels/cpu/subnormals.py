"""Numbers below the normal range, which some processors compute a hundred times slower, as zero."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ropewalk.kernels.cpu.library import native


@contextmanager
def flushed() -> Iterator[None]:
    """Within it, torch's CPU threads take numbers below 1.2e-38 in magnitude as zero.

    In fp64 below 2.2e-308. Only the calling thread and the OpenMP threads that work for it are
    changed, and they are as they were afterwards, also after an error. May be nested. Without the
    compiled library, and on processors that are not x86-64, nothing is changed.
    """
    library = native()
    if library is None:
        yield
        return
    call = library.handle.ropewalk_flush_subnormals
    call.argtypes, call.restype = [ctypes.c_int64, ctypes.c_int64], None
    # The same number at both ends, whatever happens to torch's in between.
    threads = torch.get_num_threads()
    call(threads, 1)
    try:
        yield
    finally:
        call(threads, 0)
