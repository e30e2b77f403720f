"""Small tables with planted faults, opened as users open them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ropewalk.tables.open import EmbeddingTable, open_table

MakeTable = Callable[..., EmbeddingTable]


@pytest.fixture
def make_table(tmp_path: Path) -> MakeTable:
    """make_table(rows, pieces=..., head=..., bias=..., tied=...): a model's folder, its table.

    `pieces` are the tokens of a WordPiece vocabulary in vocab.txt; without, there is none.
    """
    made = 0

    def make(
        rows: Tensor,
        pieces: Sequence[str] | None = None,
        head: Tensor | None = None,
        bias: Tensor | None = None,
        tied: bool | None = None,
        role: str = "input",
    ) -> EmbeddingTable:
        nonlocal made
        made += 1
        folder = tmp_path / f"model{made}"
        folder.mkdir()
        tensors = {"model.embed_tokens.weight": rows.contiguous()}
        if head is not None:
            tensors["lm_head.weight"] = head.contiguous()
        if bias is not None:
            tensors["lm_head.bias"] = bias
        save_file(tensors, folder / "model.safetensors")
        flag = head is None if tied is None else tied
        config = {"hidden_size": rows.shape[1], "tie_word_embeddings": flag}
        (folder / "config.json").write_text(json.dumps(config))
        if pieces is not None:
            (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
        return open_table(folder, role)  # type: ignore[arg-type]

    return make


@pytest.fixture
def normal() -> Callable[..., Tensor]:
    """normal(rows, width, seed=0): independent normal numbers, fp32."""

    def make(rows: int, width: int, seed: int = 0) -> Tensor:
        return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))

    return make
