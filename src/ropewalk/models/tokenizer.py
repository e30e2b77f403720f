"""A model's tokenizer without its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ropewalk.models.load import told_plainly
from ropewalk.models.resolve import resolve

_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")


def load_tokenizer(name: str) -> Any:
    """transformers' tokenizer of a model, or of a folder that holds nothing but a tokenizer.

    `name` is a folder, a GGUF file, a hub id or a known name. No code of the model's is run.
    Raises as `ropewalk.models.resolve.resolve` for a name that is nothing, ModelFileError for a
    tokenizer that cannot be loaded, and MissingPartError without transformers.
    """
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    folder = Path(name).expanduser()
    if not any((folder / file).is_file() for file in _FILES):
        files = resolve(name)
        folder = files.path if files.kind == "folder" else files.path.parent
        if files.kind == "gguf":
            options["gguf_file"] = files.path.name
    with told_plainly(name):
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder, **options)
