"""`ropewalk table MODEL map` as a user meets it."""

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
    """Eighty rows of eight numbers, without a vocabulary."""
    folder = tmp_path / "toy"
    folder.mkdir()
    rows = torch.randn(80, 8, generator=torch.Generator().manual_seed(0))
    save_file({"embed_tokens.weight": rows}, folder / "model.safetensors")
    return folder


def test_the_page_is_written_and_what_it_shows_is_printed(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.html"
    shown = CliRunner().invoke(
        app, ["table", str(model), "map", "--html", str(out), "--points", "30", "--seed", "5"]
    )
    assert shown.exit_code == 0, shown.output
    assert "30 of 80 rows, drawn without preference, none twice, seed 5" in shown.output
    assert "of the variance" in " ".join(shown.output.split())
    assert "A row is a token's identity" in shown.output
    page = out.read_text(encoding="utf-8")
    assert "30 of 80 rows, drawn without preference, none twice, seed 5" in page
    assert "http" not in page.split("<script")[0].replace("http-equiv", "")


def test_the_document_counts_and_the_same_command_writes_the_same_page(
    model: Path, tmp_path: Path
) -> None:
    pages = []
    for name in ("a.html", "b.html"):
        out = tmp_path / name
        command = ["table", str(model), "map", "--html", str(out), "--json", "--no-mean"]
        shown = CliRunner().invoke(app, command)
        document = json.loads(shown.stdout)
        assert document["schema"] == "ropewalk.table.map/1"
        assert (document["shown"], document["of"]) == (80, 80)
        assert "about zero" in document["axes"]
        pages.append(out.read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--html", "."],
        ["--html", "nowhere/map.html"],
        ["--html", "map.html", "--points", "0"],
        ["--html", "map.html", "--neighbours", "80"],
        ["--html", "map.html", "--neighbours", "-1"],
        ["--html", "map.html", "--clusters", "81"],
    ],
)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["table", str(model), "map", *arguments])
    assert isinstance(shown.exception, UsageError), shown.output
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


@pytest.fixture
def bunched(tmp_path: Path) -> Path:
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


def test_sizes_and_central_tokens_are_shown(bunched: Path) -> None:
    shown = CliRunner().invoke(app, ["table", str(bunched), "clusters", "-n", "2"])
    assert shown.exit_code == 0, shown.output
    assert "2 clusters of all 60 rows" in shown.output
    assert "      40  ################" in shown.output
    assert "seed 0" in " ".join(shown.output.split())
    assert "\x1b" not in shown.output
    assert "A row is a token's identity" in shown.output


def test_the_document_holds_the_cluster_of_every_row(bunched: Path) -> None:
    shown = CliRunner().invoke(app, ["table", str(bunched), "clusters", "-n", "2", "--json"])
    document = json.loads(shown.stdout)
    assert document["schema"] == "ropewalk.table.clusters/1"
    assert document["labels"] == [0] * 40 + [1] * 20
    assert [c["size"] for c in document["clusters"]] == [40, 20]
    assert 0 <= document["clusters"][1]["central"][0]["id"] - 40 < 20


@pytest.mark.parametrize("number", ["0", "-1", "61"])
def test_a_number_that_cannot_be_is_one_sentence(bunched: Path, number: str) -> None:
    shown = CliRunner().invoke(app, ["table", str(bunched), "clusters", "-n", number])
    assert isinstance(shown.exception, UsageError)
    assert "clusters were asked for" in str(shown.exception)
