"""Small models of random weights with a tokenizer of their own, as folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TRAINED = 512
"""What the small models claim."""

SaveFolder = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder of the test's own, so that the user's is not touched."""
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path_factory.mktemp("cache")))


def save_folder(
    path: Path, tiny_model: Callable[..., Any], tokenizer: Any, kind: str, **changes: Any
) -> Path:
    """A checkpoint folder with a tokenizer and a README, at `path`."""
    tiny_model(kind, **({"max_position_embeddings": TRAINED} | changes)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    settings = json.loads((path / "tokenizer_config.json").read_text())
    settings["model_max_length"] = TRAINED
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    (path / "README.md").write_text("# Small\n\nA model of random weights.\n")
    return path


@pytest.fixture(scope="module")
def shared_folder(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_model: Callable[..., Any],
    tiny_tokenizer: Callable[[str], Any],
) -> Path:
    """One checkpoint folder for all tests of a file, which leave it as it is."""
    path = tmp_path_factory.mktemp("shared") / "small"
    return save_folder(path, tiny_model, tiny_tokenizer("bos"), "llama")


@pytest.fixture
def folder(
    tmp_path: Path, tiny_model: Callable[..., Any], tiny_tokenizer: Callable[[str], Any]
) -> SaveFolder:
    """folder(kind, **changes): a checkpoint folder with a tokenizer and a README."""

    def make(kind: str = "llama", name: str = "small", **changes: Any) -> Path:
        tokenizer = tiny_tokenizer("bos")
        return save_folder(tmp_path / name, tiny_model, tokenizer, kind, **changes)

    return make
