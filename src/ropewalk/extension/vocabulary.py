"""Whether the tokenizer that lies beside a model is the model's, by their files alone."""

from __future__ import annotations

import json
from pathlib import Path

from ropewalk.dialects.gguf.header import SkippedArray, read_header
from ropewalk.dialects.hf import load_json
from ropewalk.errors import ModelFileError
from ropewalk.extension.fit import check_vocabulary
from ropewalk.models.resolve import ModelFiles, resolve

_TOKENS = "tokenizer.ggml.tokens"
_TABLE = "token_embd.weight"
_MOST = 1 << 30
"""Bytes of a tokenizer.json that is read; the largest known has 35 million."""


def rows_beside(name: str) -> int | None:
    """Rows of the table of the model that a tokenizer lies beside; None where there is none.

    `name` as in `models.tokenizer.load_tokenizer`.
    """
    folder = Path(name).expanduser()
    if folder.is_dir() and not (folder / "config.json").is_file():
        return None
    return rows_of(resolve(name))


def rows_of(files: ModelFiles) -> int | None:
    """Rows of a model's embedding table, by its files alone; None where they do not say."""
    if files.kind == "gguf":
        table = read_header(files.path).tensors.get(_TABLE)
        return None if table is None else int(table.shape[-1])
    return _rows(files.config_path)


def check_files(files: ModelFiles) -> None:
    """Raise ModelFileError when the tokenizer's ids do not fit the model's rows.

    Files that do not say both are let through: where the model is loaded it is asked again.
    """
    if files.kind == "gguf":
        header = read_header(files.path)
        table, held = header.tensors.get(_TABLE), header.metadata.get(_TOKENS)
        if table is None or not isinstance(held, tuple | SkippedArray):
            return
        count = held.count if isinstance(held, SkippedArray) else len(held)
        check_vocabulary(table.shape[-1], count - 1, files.title)
        return
    folder = files.config_path.parent
    rows, highest = _rows(files.config_path), _highest(folder / "tokenizer.json")
    if rows is not None and highest is not None:
        check_vocabulary(rows, highest, files.title)


def _rows(config: Path) -> int | None:
    values = load_json(config)
    inner = values.get("text_config")
    parts = [values, *([inner] if isinstance(inner, dict) else [])]
    found = [part.get("vocab_size") for part in parts]
    return next((rows for rows in found if isinstance(rows, int) and rows > 0), None)


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
