"""Files written whole: a reader, or a crash, sees the old file or the new one, never half of it.

They are filled beside their place, under a hidden name, and renamed. A process that is killed
leaves what it was filling; the next one that writes the same file removes it, and knows by the
lock that it holds on its own which ones nobody fills any more.

`check_can_hold` and `check_file` look at a place before the work rather than after it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ropewalk.errors import StoreError, UsageError


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
    `path` stays as it was. What a killed process left of the same file is removed first.
    """
    try:
        sweep(path.parent, _prefix(path))
        with workplace(path.parent, _prefix(path), _new_file) as beside:
            yield beside
            with beside.open("rb") as written:
                os.fsync(written.fileno())
            # A temporary file is private by default; a report is as readable as any other file.
            beside.chmod(0o666 & ~_umask())
            beside.replace(path)
    except OSError as error:
        raise _cannot(path, error) from error


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A new folder to fill, which becomes `path` when the block ends well.

    `path` is no folder yet, or an empty one. Raises StoreError when it cannot be made; after any
    error nothing is left of it. What a killed process left of the same folder is removed first.
    """
    try:
        sweep(path.parent, _prefix(path))
        with workplace(path.parent, _prefix(path)) as beside:
            yield beside
            beside.chmod(0o777 & ~_umask())
            # Over an empty folder, and no other.
            beside.replace(path)
    except OSError as error:
        raise _cannot(path, error) from error


@contextmanager
def held(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a file or folder against other processes; yields whether it is held.

    The system lets go of it when the process dies, however it dies. Where there are no such locks
    (Windows, some network drives) nothing is ever held.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            mine = False
        else:
            mine = True
        yield mine
    finally:
        os.close(descriptor)


@contextmanager
def workplace(
    folder: Path, prefix: str, make: Callable[..., str] = tempfile.mkdtemp
) -> Iterator[Path]:
    """What `make` makes in `folder`, held, and gone afterwards unless it was renamed.

    `make` takes `dir` and `prefix`, as the functions of tempfile do.
    """
    while True:
        beside = Path(make(dir=folder, prefix=prefix))
        with held(beside, wait=True):
            # Between making and holding it, another process may have swept it away.
            if not beside.exists():
                continue
            try:
                yield beside
            finally:
                _remove(beside)
            return


def sweep(folder: Path, prefix: str) -> None:
    """Remove the workplaces of processes that are no more: nobody holds them."""
    for left in list(folder.iterdir()):
        if left.name.startswith(prefix):
            with held(left, wait=False) as mine:
                if mine:
                    _remove(left)


def _prefix(path: Path) -> str:
    return f".{path.name}.ropewalk-"


def _new_file(**where: Any) -> str:
    handle, name = tempfile.mkstemp(**where)
    os.close(handle)
    return str(name)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _cannot(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}; nothing is left of it; choose "
        "a file in a folder that can be written and has room"
    )


def check_can_hold(folder: Path, option: str) -> None:
    """Raise UsageError unless `folder`, or the nearest folder above it, can be written in."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"{option}: {place} is a file, and no folder; choose another place")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{option}: {place} cannot be written in; choose another place")


def check_file(path: Path, option: str) -> None:
    """Raise UsageError unless `path` can be written as a file in a folder that is there."""
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it")
    folder = path.absolute().parent
    if not folder.exists():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; make it first")
    check_can_hold(folder, option)
