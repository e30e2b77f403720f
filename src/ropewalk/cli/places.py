"""Where results are to be written: looked at before the work rather than after it."""

from __future__ import annotations

import os
from pathlib import Path

from ropewalk.errors import UsageError


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
