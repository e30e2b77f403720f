"""The user's cache folder: dequantised weights keyed by the file they came from.

Layout: `weights/<16 hex digits of the file's SHA-256>-<file name>/` holds a Hugging Face folder.
It is made beside, in `.making-*`, and renamed when complete, so that a half-made one is never
found. Whoever makes one holds a lock on that folder, which the system lets go when the process
dies; a folder that can be locked by another is a leftover, and is removed.
`ROPEWALK_CACHE` moves the whole cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ropewalk.errors import ModelFileError, StoreError
from ropewalk.files import sweep, workplace, write_whole
from ropewalk.short import short

_MAKING = ".making-"
_LONGEST_STEM = 80
"""Characters of a file's name kept in an entry's; file systems take 255 bytes in all."""


@short
@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One cached model: its folder and its size in bytes."""

    path: Path
    size: int


def cache_folder() -> Path:
    """Where this user's cache lies; it may not exist yet."""
    given = os.environ.get("ROPEWALK_CACHE")
    if given:
        return Path(given).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("ropewalk", appauthor=False)


def entries() -> list[CacheEntry]:
    """Every complete entry, by name."""
    weights = cache_folder() / "weights"
    folders = sorted(p for p in weights.glob("*") if p.is_dir() and not p.name.startswith("."))
    return [CacheEntry(p, folder_size(p)) for p in folders]


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content, in hex; remembered by path, size and time of change.

    Raises ModelFileError when the file cannot be read.
    """
    index = cache_folder() / "hashes.json"
    known = _read_index(index)
    try:
        state = path.stat()
        key = f"{path.resolve()}|{state.st_size}|{state.st_mtime_ns}"
        if key in known:
            return known[key]
        with path.open("rb") as file:
            known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    _write_index(index, known)
    return known[key]


def cached_folder(source: Path, make: Callable[[Path], None]) -> Path:
    """The cached folder for `source`; `make(folder)` fills it when there is none.

    Two processes may make the same entry at once: the first to finish wins, both get a whole
    one. What `make` raises leaves nothing behind; an OSError of it is taken for a failed write.

    Raises StoreError when the cache cannot be written, ModelFileError when `source` cannot be
    read.
    """
    weights = cache_folder() / "weights"
    target = weights / f"{file_hash(source)[:16]}-{source.stem[:_LONGEST_STEM]}"
    if target.is_dir():
        return target
    try:
        weights.mkdir(parents=True, exist_ok=True)
        sweep(weights, _MAKING)
        with workplace(weights, _MAKING) as beside:
            make(beside)
            try:
                beside.rename(target)
            except OSError:
                # Another process was first; its folder is as good.
                if not target.is_dir():
                    raise
    except OSError as error:
        raise _unwritable(weights, error) from error
    return target


def _unwritable(folder: Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    return StoreError(
        f"the cache {folder} cannot be written ({reason}); free some space there, or set "
        "ROPEWALK_CACHE to another folder"
    )


def _read_index(index: Path) -> dict[str, str]:
    try:
        kept = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        # Only a shortcut: without it the hash is computed again.
        return {}
    if not isinstance(kept, dict):
        return {}
    return {k: v for k, v in kept.items() if isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v)}


def _write_index(index: Path, known: dict[str, str]) -> None:
    # As above: a cache that cannot be written costs time, not correctness.
    with suppress(OSError, StoreError):
        index.parent.mkdir(parents=True, exist_ok=True)
        write_whole(index, json.dumps(known, indent=1))
