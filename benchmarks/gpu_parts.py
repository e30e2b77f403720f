"""What a machine without a network needs, in one archive, cut into parts that it takes one by one.

`pack_up` makes the archive, `split` cuts it, `missing` says which parts are not there yet, `join`
puts them together again. Every part and the whole have a SHA-256 in `parts.json`, so that a part
that was cut off or mixed up on the way is named.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from ropewalk.files import folder_beside, write_whole, written_beside

MANIFEST = "parts.json"
ARCHIVE = "needed.tar.gz"
PACKAGES = ("gguf", "platformdirs", "ropewalk")
"""Packages that the other machine may lack; of ropewalk, which travels as source, what pip wrote
down about it."""
_CHUNK = 1 << 20


class PartsError(Exception):
    """Parts that are not there, or not as they were sent; says which."""


def pack_up(model: Path, texts: Path, target: Path) -> None:
    """An archive of a model (a GGUF file or a folder), texts as JSON lines, and PACKAGES."""
    with written_beside(target) as beside, tarfile.open(beside, "w:gz", compresslevel=6) as archive:
        inside = "model" if model.is_dir() else f"model/{model.name}"
        archive.add(model, inside)
        archive.add(texts, "texts.jsonl")
        for package in PACKAGES:
            for file, path in _files(package):
                archive.add(path, f"packages/{file}", recursive=False)


def _files(package: str) -> Iterable[tuple[str, Path]]:
    """The files of an installed package, without what lies outside its folder or was compiled."""
    for file in metadata.files(package) or ():
        path = Path(str(file.locate()))
        own = package != "ropewalk" or ".dist-info" in str(file)
        if own and ".." not in file.parts and path.suffix != ".pyc" and path.is_file():
            yield str(file), path


def unpacked(archive: Path, folder: Path) -> Path:
    """`folder` with the archive's content, made whole or not at all; kept if it is there."""
    if not folder.is_dir():
        with folder_beside(folder) as beside, tarfile.open(archive) as opened:
            opened.extractall(beside, filter="data")
    return folder


def split(path: Path, folder: Path, size: int) -> list[Path]:
    """Cut a file into parts of `size` bytes, the last one shorter, and describe them.

    What was there of another file goes; the manifest is written last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("part-*"), folder / MANIFEST):
        old.unlink(missing_ok=True)
    parts: list[Path] = []
    with path.open("rb") as file:
        while piece := file.read(size):
            part = folder / f"part-{len(parts):02}"
            part.write_bytes(piece)
            parts.append(part)
    about: dict[str, Any] = {
        "name": path.name,
        "sha256": digest(path),
        "parts": [{"name": part.name, "sha256": digest(part)} for part in parts],
    }
    write_whole(folder / MANIFEST, json.dumps(about, indent=1) + "\n")
    return parts


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest(folder: Path) -> dict[str, Any]:
    """What `split` wrote down. Raises PartsError where there is none that can be read."""
    try:
        about = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        names = [part["name"] for part in about["parts"]]
        known = {"name": about["name"], "sha256": about["sha256"], "parts": about["parts"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise PartsError(
            f"{folder / MANIFEST} cannot be read ({error}); send it with the first part"
        ) from error
    if any(Path(name).name != name for name in (*names, about["name"])):
        raise PartsError(f"{folder / MANIFEST} names files outside its folder")
    return known


def missing(folder: Path) -> list[str]:
    """The parts that are not there, or not as they were sent, in order."""
    found = []
    for part in manifest(folder)["parts"]:
        path = folder / part["name"]
        if not path.is_file() or digest(path) != part["sha256"]:
            found.append(str(part["name"]))
    return found


def join(folder: Path, target: Path) -> Path:
    """The whole file again at `target`; kept if it is there and whole.

    Raises PartsError for parts that are missing or damaged, by name, and for a whole that is not
    what was cut.
    """
    about = manifest(folder)
    if target.is_file() and digest(target) == about["sha256"]:
        return target
    lacking = missing(folder)
    if lacking:
        raise PartsError(
            f"{', '.join(lacking)} of {len(about['parts'])} parts are not in {folder}, or damaged; "
            "send them again"
        )
    with written_beside(target) as beside:
        with beside.open("wb") as file:
            for part in about["parts"]:
                with (folder / part["name"]).open("rb") as piece:
                    while chunk := piece.read(_CHUNK):
                        file.write(chunk)
        if digest(beside) != about["sha256"]:
            raise PartsError(
                f"the parts in {folder} are whole, and together are not {about['name']}: they are "
                "of another archive; prepare and send them anew"
            )
    return target
