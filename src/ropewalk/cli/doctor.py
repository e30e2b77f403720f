"""`ropewalk doctor`: what is here, what is missing, and where the caches lie."""

from __future__ import annotations

import json
import os
import platform
from operator import itemgetter

import typer

from ropewalk.cli import options
from ropewalk.cli.output import show
from ropewalk.report.document import Column, Prose, Table, ToCopy

PARTS = {
    "torch": "running models",
    "transformers": "running models",
    "tokenizers": "running models",
    "safetensors": "running models",
    "gguf": "dequantising GGUF files",
    "accelerate": "loading GGUF files",
    "jinja2": "HTML reports and chat templates",
    "scipy": "tests of two proofs",
    "sentencepiece": "some tokenizers",
    "huggingface_hub": "downloading configurations by hub id",
}
"""Optional packages and what they are for; all of them come with `ropewalk[prove]`."""


def doctor_command(
    as_json: options.AsJson = False,
) -> None:
    """Versions, threads, caches with sizes, and what optional parts are missing."""
    from ropewalk import __version__

    if as_json:
        typer.echo(json.dumps({"schema": "ropewalk.doctor/1", **_document()}, indent=2))
        return
    python = f"Python {platform.python_version()}"
    show(f"ropewalk {__version__}, {python}, {platform.platform()}")
    _fact("cores", f"{os.cpu_count()}, usable here: {_usable_cores()}")
    found = {package: _version(package) for package in PARTS}
    if found["torch"]:
        _fact("torch", _torch())
        _fact("kernels", *_kernels())
    show("", "optional parts")
    parts = PARTS.items()
    rows = [(name, found[name] or "missing", use) for name, use in parts]
    columns = (
        Column("", 19),
        Column("", 19, itemgetter(1), align="<"),
        Column("", 0, itemgetter(2), align="<"),
    )
    show(Table(columns, rows, words=True, indent=2))
    missing = [package for package, version in found.items() if version is None]
    if missing:
        lead = f"  {len(missing)} missing; get them with:"
        show(ToCopy('pip install "ropewalk[prove]"', lead=lead))
    show("", "known models")
    _known_models()
    show("", "cache of dequantised weights")
    _cache()


def _document() -> dict[str, object]:
    """All of it as plain values."""
    from ropewalk import __version__
    from ropewalk.models.cache import cache_folder, entries
    from ropewalk.models.resolve import KNOWN

    parts = {package: _version(package) for package in PARTS}
    kept = entries()
    return {
        "ropewalk": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "usable_cores": _usable_cores(),
        "torch": _torch() if parts["torch"] else None,
        "kernels": _kernels() if parts["torch"] else None,
        "parts": parts,
        "models": {
            name: {"path": _path_of(name), "install": known.install}
            for name, known in KNOWN.items()
        },
        "cache": {
            "folder": str(cache_folder()),
            "bytes": sum(entry.size for entry in kept),
            "entries": [{"name": entry.path.name, "bytes": entry.size} for entry in kept],
        },
    }


def _path_of(name: str) -> str | None:
    """Where a known model lies; None for one that is not installed."""
    from ropewalk.errors import UnknownModelError
    from ropewalk.models.resolve import resolve

    try:
        return str(resolve(name).path)
    except UnknownModelError:
        return None


def _fact(name: str, text: str, path: str | None = None) -> None:
    """What is called `name`, and below it where it lies."""
    show(Prose(text, f"{name:<10}", " " * 10))
    if path is not None:
        show(ToCopy(path, " " * 10))


def _known_models() -> None:
    from ropewalk.models.resolve import KNOWN

    for name, known in KNOWN.items():
        path = _path_of(name)
        if path is None:
            show(ToCopy(known.install, lead=f"  {name:<16} missing; get it with:"))
        else:
            show(ToCopy(path, lead=f"  {name:<16}"))


def _cache() -> None:
    from ropewalk.models.cache import cache_folder, entries

    kept = entries()
    for entry in kept:
        show(f"  {_megabytes(entry.size):>16} {entry.path.name}")
    total = _megabytes(sum(entry.size for entry in kept))
    show(ToCopy(str(cache_folder()), lead=f"  {total} in"))
    if kept:
        show("  Whatever is deleted there is made again when needed.")


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _torch() -> str:
    """Threads and devices. Imports torch, which takes a second or so."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return f"installed and cannot be imported: {error}"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        gpus.append("mps")
    return f"{torch.get_num_threads()} threads, GPU: {', '.join(gpus) or 'none'}"


def _kernels() -> list[str]:
    """Which path rotary encoding and embedding take on the CPU: compiled or torch, and why; and
    where what is compiled lies.
    """
    try:
        import torch
    except (ImportError, OSError):
        return ["none: they compute on the tensors of torch"]
    from ropewalk.kernels.cpu.library import Absent, library

    found = library()
    if isinstance(found, Absent):
        return [f"torch: {found.why}"]
    pool = "of its own" if found.openmp is None else f"of {found.openmp}"
    return [
        f"compiled, {found.instruction_set}, {torch.get_num_threads()} threads {pool}",
        str(found.path),
    ]


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1_000_000 or not size else f"{size / 1e3:,.0f} kB"
