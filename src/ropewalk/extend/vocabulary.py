"""Whether the tokenizer that lies beside a model is the model's, by their files alone."""

from __future__ import annotations

import json
from pathlib import Path

from ropewalk.dialects.gguf.header import SkippedArray, read_header
from ropewalk.dialects.hf import load_json
from ropewalk.errors import ModelFileError
from ropewalk.extend.fit import check_vocabulary
from ropewalk.models.resolve import ModelFiles

_TOKENS = "tokenizer.ggml.tokens"
_TABLE = "token_embd.weight"
_MOST = 1 << 30
"""Bytes of a tokenizer.json that is read; the largest known has 35 million."""


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
    """The last id of a tokenizer.json, added tokens included; None where it cannot be told."""
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
    ids: list[object] = []
    if isinstance(vocabulary, dict):
        ids += vocabulary.values()
    elif isinstance(vocabulary, list):
        ids.append(len(vocabulary) - 1)
    if isinstance(added, list):
        ids += [each.get("id") for each in added if isinstance(each, dict)]
    return max((each for each in ids if isinstance(each, int)), default=None)
