"""Files written whole: a reader, or a crash, sees the old file or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ropewalk.errors import StoreError


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text beside `path`, then rename it into place.

    Line ends are kept as they are. Raises StoreError when it cannot be written, and then leaves
    nothing behind.
    """
    beside: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            newline="",
            dir=path.parent,
            prefix=f".{path.name}.",
            delete=False,
        ) as out:
            beside = Path(out.name)
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        # A temporary file is private by default; a report is as readable as any other file.
        umask = os.umask(0)
        os.umask(umask)
        beside.chmod(0o666 & ~umask)
        beside.replace(path)
    except OSError as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise StoreError(
            f"{path} cannot be written: {error.strerror or error}; nothing is left of it; choose "
            "a file in a folder that can be written and has room"
        ) from error
