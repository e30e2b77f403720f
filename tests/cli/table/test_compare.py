"""`ropewalk table A compare B` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import UsageError

PIECES = [f"Ġw{i}" for i in range(28)] + ["\x1b[31mred", "Ġbank"]


def model(folder: Path, rows: torch.Tensor, pieces: list[str]) -> Path:
    folder.mkdir()
    save_file({"model.embed_tokens.weight": rows.contiguous()}, folder / "model.safetensors")
    vocab = {piece: i for i, piece in enumerate(pieces)}
    held = {"model": {"type": "BPE", "vocab": vocab}, "decoder": {"type": "ByteLevel"}}
    (folder / "tokenizer.json").write_text(json.dumps(held))
    return folder


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two checkpoints that differ in the rows 28 and 29, the second 1 token longer."""
    rows = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    moved = torch.cat([rows, rows[:1]])
    moved[28:30] *= -1
    return (
        model(tmp_path / "one", rows, PIECES),
        model(tmp_path / "two", moved, [*PIECES, "more"]),
    )


def call(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["table", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_what_moved_is_listed_with_its_token_and_nothing_a_terminal_obeys(
    pair: tuple[Path, Path],
) -> None:
    shown = call(pair[0], "compare", pair[1], "--top", "2", "-k", "3")
    assert "30 tokens are in both" in shown
    assert "100.0% of A's 30, 96.8% of B's 31" in " ".join(shown.split())
    listed = shown[shown.index("As they are") : shown.index("After rotating")]
    assert "bank" in listed
    assert "-1.0000" in listed
    assert "\x1b" not in shown
    assert "A row is a token's identity" in shown
    assert shown.count("read ") >= 2


def test_json_says_the_same(pair: tuple[Path, Path]) -> None:
    held = json.loads(call("compare", pair[0], pair[1], "--top", "2", "-k", "3", "--json"))
    assert held["schema"] == "ropewalk.table.compare/1"
    assert held["shared"] == 30
    assert {t["ids"][0] for t in held["raw"]["most_rotated"]} == {28, 29}
    assert held["overlap"]["sample"] == 30


def test_without_a_shared_token_there_is_nothing_to_compare(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    other = model(tmp_path / "three", torch.ones(1, 6), ["else"])
    with pytest.raises(UsageError, match="share no token"):
        call(pair[0], "compare", other)


def test_a_table_of_nan_alone_is_said_to_be_one(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    other = model(tmp_path / "nan", torch.full((30, 6), torch.nan), PIECES)
    shown = call(pair[0], "compare", other)
    assert "30 of them are rows of NaN or infinity" in shown
    assert "No shared token has a direction in both" in shown
    assert json.loads(call(pair[0], "compare", other, "--json"))["raw"] is None
