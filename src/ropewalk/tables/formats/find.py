"""From a path to the checkpoint in it, by what lies there; nothing is guessed from a model's name.

A file is what it begins with. In a folder, safetensors come before torch's files, and an index
before the files that it names.
"""

from __future__ import annotations

from pathlib import Path

from ropewalk.errors import ModelFileError
from ropewalk.tables.formats.gguf import open_gguf
from ropewalk.tables.formats.npy import open_npy, open_npz
from ropewalk.tables.formats.safetensors import open_file, open_files, open_index
from ropewalk.tables.formats.shards import Checkpoint
from ropewalk.tables.formats.torch_file import open_torch, open_torch_index

TORCH = (".bin", ".pt", ".pth", ".ckpt")
PICKLES = (".pkl", ".pickle", ".joblib")
_KINDS = "safetensors, GGUF, npy, npz, or a torch state_dict (.bin, .pt, .pth)"
_INDEX = ".index.json"


def is_tables_file(path: Path) -> bool:
    """Whether a file is one that holds tensors, or an index of such files."""
    name = path.name.lower()
    return name.endswith((".safetensors", ".npy", _INDEX, *TORCH, *PICKLES, ".npz"))


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint at a file or in a folder. Headers only are read.

    Raises ModelFileError for pickles, for files of other kinds, and for a folder without weights.
    """
    return _in_folder(path) if path.is_dir() else _file(path)


def _file(path: Path) -> Checkpoint:
    name = path.name.lower()
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    if name.endswith(_INDEX):
        return open_torch_index(path) if ".bin" in name else open_index(path)
    if start.startswith(b"GGUF") or name.endswith(".gguf"):
        return open_gguf(path)
    if start.startswith(b"\x93NUMPY") or name.endswith(".npy"):
        return open_npy(path)
    if name.endswith(".npz"):
        return open_npz(path)
    if name.endswith(".safetensors"):
        return open_file(path)
    if name.endswith(PICKLES):
        raise ModelFileError(
            f"{path} is a pickle, which could run code when read, and is refused; save the table "
            "as safetensors or npy"
        )
    if name.endswith(TORCH):
        return open_torch(path)
    raise ModelFileError(f"{path} is no file that tables are read from: {_KINDS}")


def _in_folder(folder: Path) -> Checkpoint:
    try:
        files = sorted(p for p in folder.iterdir() if p.is_file())
    except OSError as error:
        raise ModelFileError(f"{folder} cannot be read: {error.strerror or error}") from error
    by_name = {p.name: p for p in files}
    for kind, whole in ((".safetensors", "model.safetensors"), (".bin", "pytorch_model.bin")):
        indices = [p for p in files if p.name.endswith(f"{kind}{_INDEX}")]
        if f"{whole}{_INDEX}" in by_name:
            return _file(by_name[f"{whole}{_INDEX}"])
        if whole in by_name:
            return _file(by_name[whole])
        if len(indices) == 1:
            return _file(indices[0])
        found = [p for p in files if p.name.endswith(kind)]
        if len(found) == 1:
            return _file(found[0])
        if found and kind == ".safetensors":
            return open_files(folder, found)
    found = [p for p in files if p.name.endswith((*TORCH, ".npy", ".npz", ".gguf"))]
    if len(found) == 1:
        return _file(found[0])
    if found:
        raise ModelFileError(
            f"{folder} has {len(found)} files that may hold the table, such as "
            f"{', '.join(p.name for p in found[:4])}; give one of them"
        )
    raise ModelFileError(
        f"{folder} holds no weights ({_KINDS}); a model of the hub is fetched with `hf download`"
    )
