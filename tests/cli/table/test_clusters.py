"""`ropewalk table MODEL clusters` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import UsageError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Sixty rows in two bunches; one of the tokens would clear the screen."""
    rows = torch.eye(8)[[0] * 40 + [1] * 20] + 0.05 * torch.randn(
        60, 8, generator=torch.Generator().manual_seed(0)
    )
    save_file({"embed_tokens.weight": rows}, tmp_path / "model.safetensors")
    words = {f"word{i}": i for i in range(59)} | {"\x1b[2Jevil": 59}
    tokenizer = {
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "word0"},
        "added_tokens": [],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return tmp_path


def test_sizes_and_central_tokens_are_shown(model: Path) -> None:
    shown = CliRunner().invoke(app, ["table", str(model), "clusters", "-n", "2"])
    assert shown.exit_code == 0, shown.output
    assert "2 clusters of all 60 rows" in shown.output
    assert "      40  ################" in shown.output
    assert "seed 0" in " ".join(shown.output.split())
    assert "\x1b" not in shown.output
    assert "A row is a token's identity" in shown.output


def test_the_document_holds_the_cluster_of_every_row(model: Path) -> None:
    shown = CliRunner().invoke(app, ["table", str(model), "clusters", "-n", "2", "--json"])
    document = json.loads(shown.stdout)
    assert document["schema"] == "ropewalk.table.clusters/1"
    assert document["labels"] == [0] * 40 + [1] * 20
    assert [c["size"] for c in document["clusters"]] == [40, 20]
    assert 0 <= document["clusters"][1]["central"][0]["id"] - 40 < 20


@pytest.mark.parametrize("number", ["0", "-1", "61"])
def test_a_number_that_cannot_be_is_one_sentence(model: Path, number: str) -> None:
    shown = CliRunner().invoke(app, ["table", str(model), "clusters", "-n", number])
    assert isinstance(shown.exception, UsageError)
    assert "clusters were asked for" in str(shown.exception)
