"""The tokenizer that a vocabulary came from, brought up once to cut many words."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ropewalk.errors import MissingPartError, ModelFileError
from ropewalk.tables.vocabulary import Vocabulary

_LOADING_ERRORS = (OSError, ValueError, LookupError, RuntimeError, TypeError, AttributeError)


def tokeniser(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    """Text to ids, no special tokens added.

    Raises MissingPartError for a package that is missing, ModelFileError for a tokenizer that
    cannot be brought up.
    """
    path = Path(vocabulary.source)
    if path.name == "tokenizer.json":
        tokenizers: Any = _package("tokenizers")
        try:
            backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises a bare Exception
            raise _unusable(path, error) from error
        return lambda text: list(backend.encode(text, add_special_tokens=False).ids)
    transformers: Any = _package("transformers")
    place: dict[str, object] = {"local_files_only": True, "trust_remote_code": False}
    if path.suffix.lower() == ".gguf":
        place["gguf_file"] = path.name
    try:
        made = transformers.AutoTokenizer.from_pretrained(path.parent, **place)
    except _LOADING_ERRORS as error:
        raise _unusable(path, error) from error
    return lambda text: list(made.encode(text, add_special_tokens=False))


def _unusable(path: Path, error: Exception) -> ModelFileError:
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return ModelFileError(f"the tokenizer in {path} cannot be brought up: {said}")


def _package(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise MissingPartError(
            f"cutting a text into tokens needs {name}, which is not installed: "
            'pip install "ropewalk[prove]"'
        )
    return importlib.import_module(name)
