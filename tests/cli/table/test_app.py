"""The group `ropewalk table` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app


def _model(folder: Path, head: bool) -> Path:
    folder.mkdir()
    tensors = {"model.embed_tokens.weight": torch.randn(6, 4)}
    if head:
        tensors["lm_head.weight"] = torch.randn(6, 4)
    save_file(tensors, folder / "model.safetensors")
    config = {"vocab_size": 6, "hidden_size": 4, "tie_word_embeddings": not head}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_a_model_alone_lists_its_tables_and_whether_they_are_tied(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["table", str(_model(tmp_path / "untied", head=True))])
    assert shown.exit_code == 0
    assert "model.embed_tokens.weight, 6 x 4 F32" in shown.output
    assert "lm_head.weight, 6 x 4 F32" in shown.output
    assert "no vocabulary" in shown.output
    assert "untied" in shown.output


def test_a_tied_head_that_is_not_stored_is_shown_as_the_input_table(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["table", str(_model(tmp_path / "tied", head=False))])
    assert shown.output.count("model.embed_tokens.weight") >= 2
    assert "tied" in shown.output


def test_a_head_that_is_missing_is_said_and_the_other_tables_are_shown(tmp_path: Path) -> None:
    folder = _model(tmp_path / "missing", head=False)
    for config in ({"model_type": "llama"}, {"tie_word_embeddings": False}):
        (folder / "config.json").write_text(json.dumps(config))
        shown = CliRunner().invoke(app, ["table", str(folder)])
        assert shown.exit_code == 0
        assert "model.embed_tokens.weight, 6 x 4 F32" in shown.output
        assert "output     missing" in shown.output
        assert "the head's weights are missing" in " ".join(shown.output.split())
