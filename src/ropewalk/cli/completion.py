"""What a shell offers behind an option or in an argument's place. Imports nothing heavy.

A completer never raises: a folder that cannot be read offers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

Complete = Callable[[str], list[str]]
"""Given what is typed of a word, the whole words that begin so."""

KNOWN = ("smollm2", "tiny")
"""As `ropewalk.models.resolve` has them, whose readers of files take longer to import."""

_WEIGHTS = frozenset({".gguf", ".safetensors", ".npy", ".npz", ".bin", ".pt", ".pth"})
"""Files out of which a table is read."""


def words(*known: str) -> Complete:
    """A completer of these words."""

    # typer knows the parameter by its type.
    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def several(*known: str) -> Complete:
    """A completer of a list with commas: of its last word, with the others before it."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        free = [word for word in known if word not in before.split(",")]
        return [f"{before}{comma}{word}" for word in free if word.startswith(last)]

    return complete


def models(incomplete: str) -> list[str]:
    """Known names, model folders, .gguf files and configurations."""
    return [*_known(incomplete), *_paths(incomplete, _is_model_file)]


def models_or_diff(incomplete: str) -> list[str]:
    """As `models`, and the word that compares two proofs."""
    return [word for word in ("diff",) if word.startswith(incomplete)] + models(incomplete)


def tables(incomplete: str) -> list[str]:
    """As `models`, and every file out of which a table is read."""
    return [*_known(incomplete), *_paths(incomplete, lambda p: p.suffix.lower() in _WEIGHTS)]


def _known(typed: str) -> list[str]:
    return [name for name in KNOWN if name.startswith(typed)]


def _is_model_file(path: Path) -> bool:
    return path.suffix.lower() == ".gguf" or path.name == "config.json"


def _paths(typed: str, fits: Callable[[Path], bool]) -> list[str]:
    """Folders, and files that fit, that begin as typed.

    A shell puts a blank behind a word that is the only one, and from a folder on the way to a
    model one wants to go on. What lies in such a folder is therefore offered beside it.
    """
    found = list(_beginning(typed, fits))
    if len(found) == 1 and found[0].endswith("/"):
        return [*found, *_beginning(found[0], fits)]
    return found


def _beginning(typed: str, fits: Callable[[Path], bool]) -> Iterator[str]:
    """Each path as it would be typed: a folder that is no model itself ends in a stroke."""
    before, stroke, name = typed.rpartition("/")
    folder = Path(before + stroke or ".").expanduser()
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (OSError, ValueError, RuntimeError):
        return
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name[0] == "." and not name):
            continue
        whole = f"{before}{stroke}{entry.name}"
        try:
            if entry.is_dir():
                yield whole if (Path(entry) / "config.json").is_file() else f"{whole}/"
            elif fits(Path(entry)):
                yield whole
        except OSError:
            continue
