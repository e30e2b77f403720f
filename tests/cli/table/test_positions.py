"""`ropewalk table MODEL positions` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import UsageError


def _model(folder: Path, rows: int, **config: object) -> Path:
    folder.mkdir()
    angles = torch.arange(float(rows))[:, None] * torch.logspace(0, -3, 32)[None]
    tensors = {"wte.weight": torch.randn(6, 64)}
    if rows:
        tensors["wpe.weight"] = torch.cat([angles.sin(), angles.cos()], 1)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"hidden_size": 64, **config}))
    return folder


def test_a_table_is_measured_in_text_json_and_html(tmp_path: Path) -> None:
    model, out = _model(tmp_path / "gpt", 100, model_type="gpt2"), tmp_path / "page.html"
    shown = CliRunner().invoke(app, ["table", str(model), "positions", "--html", str(out)])
    assert shown.exit_code == 0, shown.output
    assert "gpt: 100 positions of 64 numbers" in shown.output
    assert "all 100: no end falls away" in shown.output
    assert "wpe.weight, 100 x 64 F32" in shown.output
    assert "effective" in out.read_text(encoding="utf-8").lower()
    plain = CliRunner().invoke(app, ["table", str(model), "positions", "--json"])
    document = json.loads(plain.stdout)
    assert document["schema"] == "ropewalk.table.positions/1"
    assert (document["positions"], document["effective"]) == (100, 100)
    assert len(document["norms"]) == 100


def test_a_model_without_a_table_says_in_one_sentence_what_it_uses(tmp_path: Path) -> None:
    rotary = _model(
        tmp_path / "llama", 0, model_type="llama", num_attention_heads=4, num_hidden_layers=2
    )
    shown = CliRunner().invoke(app, ["table", str(rotary), "positions"])
    assert shown.exit_code == 0
    assert shown.stdout.startswith("llama has no table of learned positions; its configuration")
    assert "rotary, 16 of 16 channels" in " ".join(shown.stdout.split())
    assert len(shown.stdout.splitlines()) <= 3
    plain = CliRunner().invoke(app, ["table", str(rotary), "positions", "--json"])
    assert json.loads(plain.stdout)["table"] is None
    drawn = CliRunner().invoke(
        app, ["table", str(rotary), "positions", "--html", str(tmp_path / "p.html")]
    )
    assert isinstance(drawn.exception, UsageError)
    assert not (tmp_path / "p.html").exists()


def test_without_a_configuration_that_is_said(tmp_path: Path) -> None:
    model = _model(tmp_path / "bare", 0)
    (model / "config.json").unlink()
    shown = CliRunner().invoke(app, ["table", str(model), "positions"])
    assert "no configuration beside it says what it uses instead" in shown.output


def test_a_tensor_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    model = _model(tmp_path / "gpt", 100, model_type="gpt2")
    shown = CliRunner().invoke(app, ["table", str(model), "positions", "--tensor", "nothing"])
    assert isinstance(shown.exception, UsageError)
    assert "nothing" in str(shown.exception)


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    model = _model(tmp_path / "gpt", 100, model_type="gpt2")
    shown = CliRunner().invoke(app, ["table", str(model), "positions", "--html", str(tmp_path)])
    assert isinstance(shown.exception, UsageError)
    assert [p.name for p in tmp_path.iterdir()] == ["gpt"]
