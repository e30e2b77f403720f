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


@pytest.fixture
def folder(
    tmp_path: Path, tiny_model: Callable[..., Any], tiny_tokenizer: Callable[[str], Any]
) -> SaveFolder:
    """folder(kind, **changes): a checkpoint folder with a tokenizer and a README."""

    def make(kind: str = "llama", name: str = "small", **changes: Any) -> Path:
        path = tmp_path / name
        tiny_model(kind, **({"max_position_embeddings": TRAINED} | changes)).save_pretrained(path)
        tokenizer = tiny_tokenizer("bos")
        tokenizer.save_pretrained(path)
        settings = json.loads((path / "tokenizer_config.json").read_text())
        settings["model_max_length"] = TRAINED
        (path / "tokenizer_config.json").write_text(json.dumps(settings))
        (path / "README.md").write_text("# Small\n\nA model of random weights.\n")
        return path

    return make
