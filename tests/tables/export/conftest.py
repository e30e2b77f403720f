"""Tables to be written, with names that break what is careless."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ropewalk.tables.open import EmbeddingTable, open_table

MakeTable = Callable[..., EmbeddingTable]

HOSTILE = ["cat", "a\tb", "line\nend", "\r", " the", "</script>", "\u2028", "\x85", "é", '"q"\\']


@pytest.fixture
def make_table(tmp_path: Path) -> MakeTable:
    """make_table(words, rows): a table opened from a file, with these words as its tokens."""

    def make(words: list[str] | None, rows: torch.Tensor, name: str = "model") -> EmbeddingTable:
        folder = tmp_path / name
        folder.mkdir()
        save_file({"embed_tokens.weight": rows}, folder / "model.safetensors")
        if words is not None:
            vocab = {word: row for row, word in enumerate(words)}
            tokenizer = {"model": {"type": "WordLevel", "vocab": vocab}, "added_tokens": []}
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        return open_table(folder)

    return make


@pytest.fixture
def hostile(make_table: MakeTable) -> EmbeddingTable:
    """Ten rows of four numbers, whose names hold what ends a field, a line or an element."""
    rows = torch.randn(len(HOSTILE), 4, generator=torch.Generator().manual_seed(0))
    return make_table(HOSTILE, rows)
