"""The compiled library: where it lies, whether it may run, and on what it runs.

It is no Python extension: a plain C interface, called through ctypes with the addresses of
tensors, so that one binary serves every Python and every torch. ctypes lets go of the GIL for
the length of a call.

`ROPEWALK_KERNELS=torch` in the environment selects the torch path instead; it is read once.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ropewalk.errors import UsageError
from ropewalk.short import short

ABI = 4
"""The interface that this package speaks; a library says which it was built with."""

INSTRUCTION_SETS = ("baseline", "AVX2", "AVX-512")
"""What a binary for this processor family holds, from narrow to wide, in the library's order."""


@short
@dataclass(frozen=True, slots=True)
class Native:
    """The library, loaded. `openmp`: the runtime whose threads it runs on, None for its own."""

    handle: ctypes.CDLL
    path: Path
    openmp: Path | None

    @property
    def instruction_set(self) -> str:
        """The instruction set in use, one of INSTRUCTION_SETS."""
        return INSTRUCTION_SETS[self.handle.ropewalk_instruction_set()]

    def use_instruction_set(self, name: str) -> str:
        """Run on the one named, or on the widest there is when that is narrower; says which."""
        wanted = INSTRUCTION_SETS.index(name)
        return INSTRUCTION_SETS[self.handle.ropewalk_use_instruction_set(wanted)]


@short
@dataclass(frozen=True, slots=True)
class Absent:
    """No library runs; `why` says the reason and the remedy in one sentence."""

    why: str


@cache
def library() -> Native | Absent:
    """What is there, looked for once. Imports torch, whose threads the library runs on.

    Raises UsageError when ROPEWALK_KERNELS holds something that is no choice.
    """
    found = _found()
    return found if isinstance(found, Absent) else _on_torchs_threads(found)


def loaded() -> Native | Absent:
    """As `library`, without importing torch: where it is not, the library's threads are its own.

    Once torch is there, they are torch's.
    """
    return library() if "torch" in sys.modules else _alone()


def threads() -> int:
    """On how many threads a kernel runs: torch's number, or what torch would take."""
    if "torch" in sys.modules:
        import torch

        return torch.get_num_threads()
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@cache
def _alone() -> Native | Absent:
    return _found()


def _found() -> Native | Absent:
    """The library by the environment's choice, on threads of its own."""
    choice = os.environ.get("ROPEWALK_KERNELS", "")
    if choice == "torch":
        return Absent("ROPEWALK_KERNELS=torch selects the torch path")
    if choice not in ("", "native"):
        raise UsageError(
            f"ROPEWALK_KERNELS is {choice!r}; it may be 'torch' for the torch path, 'native' or "
            "unset for the compiled kernels where there are any"
        )
    path = _path()
    if path is None:
        return Absent(
            "no compiled kernels were built at installation; install a C++ compiler, then "
            "ropewalk again with: pip install --force-reinstall --no-deps -v ropewalk"
        )
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        return Absent(f"{path} cannot be loaded: {error}; install ropewalk again")
    return _introduced(handle, path)


def native() -> Native | None:
    """The library, None where there is none or the torch path was chosen."""
    found = library()
    return found if isinstance(found, Native) else None


def _path() -> Path | None:
    """Of the library. It is found as a module would be, since an editable installation keeps
    it apart from the sources, and it is never imported.
    """
    spec = find_spec("ropewalk.kernels.cpu._native")
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _introduced(handle: ctypes.CDLL, path: Path) -> Native | Absent:
    """The library made ready, provided that it speaks this package's interface."""
    handle.ropewalk_abi.restype = ctypes.c_int64
    handle.ropewalk_instruction_set.restype = ctypes.c_int64
    handle.ropewalk_use_instruction_set.argtypes = [ctypes.c_int64]
    handle.ropewalk_use_instruction_set.restype = ctypes.c_int64
    spoken = handle.ropewalk_abi()
    if spoken != ABI:
        return Absent(f"{path} speaks interface {spoken} and not {ABI}; install ropewalk again")
    handle.ropewalk_use_openmp.argtypes = [ctypes.c_int64]
    handle.ropewalk_use_openmp.restype = None
    return Native(handle, path, None)


def _on_torchs_threads(found: Native) -> Native:
    """The library on the OpenMP runtime that torch has loaded, or as it was without one."""
    runtime = _openmp()
    if runtime is None:
        return found
    where, entry = runtime
    found.handle.ropewalk_use_openmp(entry)
    return replace(found, openmp=where)


def _openmp() -> tuple[Path, int] | None:
    """The OpenMP runtime that torch has loaded, with the address of its GOMP_parallel.

    Two runtimes would keep a pool of threads each and fight for the cores. Only one that this
    process holds already is taken (RTLD_NOLOAD); GNU's and Intel's both have that entry.
    """
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    import torch

    home = Path(torch.__file__).parent
    folders = (home / "lib", home.parent / "torch.libs", Path(sys.prefix) / "lib")
    for folder in folders:
        for path in sorted(folder.glob("lib*omp*.so*")):
            try:
                runtime = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
                entry = ctypes.cast(runtime.GOMP_parallel, ctypes.c_void_p).value
            except (OSError, AttributeError):
                continue  # not loaded, or another kind of library
            if entry is not None:
                return path, entry
    return None
