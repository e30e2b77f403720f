"""An exclusive lock on a run folder that cannot outlive the process that took it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Self

from ropewalk.errors import StoreError

LOCK_FILE = "run.lock"


class FolderLock:
    """Held from `take` to `release`, or to the end of the process, however it ends.

    The lock is the operating system's (flock, or msvcrt.locking on Windows), not the file: the
    file stays, names the last holder, and means nothing by itself.
    """

    def __init__(self, descriptor: int) -> None:
        """Used by `take`."""
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Lock `folder`, without waiting. Raises StoreError when another process holds it."""
        path = folder / LOCK_FILE
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreError(
                f"cannot write in {folder} ({error.strerror}); check that the folder can be "
                "written, or choose another --out folder."
            ) from error
        try:
            if not _try_lock(descriptor):
                holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
                raise StoreError(
                    f"another run (process {holder or 'unknown'}) is writing to {folder}: wait "
                    "for it, or choose another --out folder."
                )
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            os.close(descriptor)
            raise StoreError(
                f"cannot lock {folder} ({error.strerror}); check that its disk is not full and "
                "allows file locks, or choose another --out folder."
            ) from error
        except StoreError:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Let the next one in. Releasing twice does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


if sys.platform == "win32":
    import msvcrt

    # Windows locks bytes against reading too: lock one far behind the process number.
    _LOCKED_BYTE = 1 << 30

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
