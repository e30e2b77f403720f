"""A model's tokenizer without its weights, and whether it is the model's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ropewalk.dialects.gguf.header import SkippedArray
from ropewalk.dialects.gguf.keys import rows_of
from ropewalk.dialects.hf.family import vocabulary_of
from ropewalk.errors import ModelFileError
from ropewalk.models.resolve import ModelFiles, resolve

_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")
_TOKENS = "tokenizer.ggml.tokens"
_MOST = 1 << 30
"""Bytes of a tokenizer.json that is read; the largest known has 35 million."""


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
    from ropewalk.models.load import told_plainly

    with told_plainly(name):
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder, **options)


def rows_beside(name: str) -> int | None:
    """Rows of the table of the model that a tokenizer lies beside; None where there is none.

    `name` as in `load_tokenizer`.
    """
    folder = Path(name).expanduser()
    if folder.is_dir() and not (folder / "config.json").is_file():
        return None
    return _rows(resolve(name))


def check_files(files: ModelFiles) -> None:
    """As `check_fits`, by a model's files alone.

    Files that do not say both are let through: where the model is loaded it is asked again.
    """
    if files.kind == "gguf":
        held = files.header.metadata.get(_TOKENS)
        count = held.count if isinstance(held, SkippedArray) else None
        highest = len(held) - 1 if isinstance(held, tuple) else None if count is None else count - 1
    else:
        highest = _highest(files.config_path.parent / "tokenizer.json")
    rows = _rows(files)
    if rows is not None and highest is not None:
        check_fits(highest, rows, files.title)


def check_fits(highest: int, rows: int, name: str) -> None:
    """Raise ModelFileError when the tokenizer has ids for which the model has no row.

    `highest` is the tokenizer's last id (`highest_own`), `rows` counts those of the table of token
    vectors.
    """
    if highest >= rows:
        raise ModelFileError(
            f"the tokenizer of {name} gives ids up to {highest}, and the model has {rows} rows: "
            "the two do not belong together; put the tokenizer that the model was trained with "
            "beside it, or add rows to the table first"
        )


def highest_own(tokenizer: Any) -> int:
    """The highest id of a tokenizer's vocabulary, without tokens that were added to it; -1 for
    none.

    Added tokens may be without a row as long as no text holds them; a vocabulary that goes beyond
    the table is another model's.
    """
    added = set(tokenizer.get_added_vocab().values())
    return max((i for i in tokenizer.get_vocab().values() if i not in added), default=-1)


def _rows(files: ModelFiles) -> int | None:
    """Rows of a model's table of token vectors; None where its files do not say."""
    if files.kind == "gguf":
        return rows_of(files.header)
    inner = files.config.get("text_config")
    return vocabulary_of(files.config, inner if isinstance(inner, dict) else {})


def _highest(path: Path) -> int | None:
    """The last id of a tokenizer.json without its added tokens; None where it cannot be told.

    An added token without a row is refused where a text holds it.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MOST:
            return None
        held = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} holds no JSON ({error}); fetch it again") from error
    if not isinstance(held, dict):
        return None
    model, added = held.get("model"), held.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids: set[object] = set()
    if isinstance(vocabulary, dict):
        ids.update(each for each in vocabulary.values() if isinstance(each, int))
    elif isinstance(vocabulary, list):
        ids.update(range(len(vocabulary)))
    if isinstance(added, list):
        ids -= {each.get("id") for each in added if isinstance(each, dict)}
    return max((each for each in ids if isinstance(each, int)), default=None)
