"""A small checkpoint in a folder, and documents to tune it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ropewalk.extension.tune.training_settings import TuneSettings, parse_mix
from ropewalk.proof.haystack import GeneratedHaystack


@pytest.fixture(scope="session")
def checkpoint(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_model: Callable[..., Any],
    tiny_tokenizer: Callable[[str], Any],
) -> Path:
    """A llama of random weights with two layers and a tied head, and its tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    model = tiny_model(
        num_hidden_layers=2,
        max_position_embeddings=512,
        initializer_range=0.05,
        tie_word_embeddings=True,
    )
    model.save_pretrained(folder)
    tiny_tokenizer("bos-eos").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 documents of 1 to 12 sentences, as JSON lines."""
    random = Random(3)
    sentences = GeneratedHaystack(random).sentences()
    path = tmp_path_factory.mktemp("data") / "documents.jsonl"
    texts = [" ".join(next(sentences) for _ in range(random.randrange(1, 13))) for _ in range(40)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture
def settings(checkpoint: Path, documents: Path, tmp_path: Path) -> Callable[..., TuneSettings]:
    """settings(**changes): a run of 4 steps of 4 rows of 64 tokens."""

    def make(**changes: Any) -> TuneSettings:
        usual: dict[str, Any] = {
            "model": str(checkpoint),
            "data": (documents,),
            "steps": 4,
            "out": tmp_path / "out",
            "mix": parse_mix("64"),
            "rows": 4,
            "lr": 1e-3,
            "warmup": 2,
            "device": "cpu",
            "tensorboard": False,
        }
        return TuneSettings(**(usual | changes))

    return make
