"""Files written whole: a reader, or a crash, sees the old file or the new one, never half of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ropewalk.errors import StoreError


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text beside `path`, then rename it into place.

    Line ends are kept as they are. Raises StoreError when it cannot be written, and then leaves
    nothing behind.
    """
    with written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="")


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A new file to fill, which takes the place of `path` when the block ends well.

    For what is too large to be held, or is written by a library that wants a path. Raises
    StoreError when it cannot be written; after any error nothing is left of it, and what was at
    `path` stays as it was.
    """
    beside: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        beside = Path(name)
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        # A temporary file is private by default; a report is as readable as any other file.
        beside.chmod(0o666 & ~_umask())
        beside.replace(path)
    except OSError as error:
        raise _cannot(path, error) from error
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A new folder to fill, which becomes `path` when the block ends well.

    `path` is no folder yet, or an empty one. Raises StoreError when it cannot be made; after any
    error nothing is left of it.
    """
    beside: Path | None = None
    try:
        beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        yield beside
        beside.chmod(0o777 & ~_umask())
        # Over an empty folder, and no other.
        beside.replace(path)
    except OSError as error:
        raise _cannot(path, error) from error
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _cannot(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}; nothing is left of it; choose "
        "a file in a folder that can be written and has room"
    )
