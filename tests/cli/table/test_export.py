"""`ropewalk table MODEL export` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from gensim.models import KeyedVectors
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import RopewalkError, UsageError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Thirty rows of six numbers; 28 have tokens, none with a blank."""
    folder = tmp_path / "toy"
    folder.mkdir()
    rows = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    save_file({"embed_tokens.weight": rows}, folder / "model.safetensors")
    tokenizer = {
        "model": {"type": "WordLevel", "vocab": {f"w{i}": i for i in range(28)}},
        "added_tokens": [],
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def test_all_formats_are_written_in_one_go_and_hold_the_same_rows(
    model: Path, tmp_path: Path
) -> None:
    out = {name: str(tmp_path / f"out.{name}") for name in ("npy", "safetensors", "word2vec")}
    command = ["table", str(model), "export", "--parquet", str(tmp_path / "out.parquet")]
    command += ["--projector", str(tmp_path / "projector"), "--vectors", "--neighbours", "3"]
    for name, path in out.items():
        command += [f"--{name}", path]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert " ".join(shown.output.split()).count("28 rows, ") == 3
    assert shown.output.count("2 rows without a token are left out") == 3
    assert "all 30 rows, row number is id" in shown.output
    truth = load_file(model / "model.safetensors")["embed_tokens.weight"]
    np.testing.assert_array_equal(np.load(out["npy"]), truth)
    assert torch.equal(load_file(out["safetensors"])["embed_tokens.weight"], truth)
    vectors = KeyedVectors.load_word2vec_format(out["word2vec"])
    np.testing.assert_array_equal(vectors["w27"], truth[27])
    read = pq.read_table(tmp_path / "out.parquet").to_pydict()
    np.testing.assert_array_equal(np.array(read["vector"], dtype=np.float32), truth[:28])
    raw = np.fromfile(tmp_path / "projector" / "tensors.bytes", dtype="<f4")
    np.testing.assert_array_equal(raw.reshape(28, 6), truth[:28])


def test_a_sample_is_the_same_rows_for_the_same_seed(model: Path, tmp_path: Path) -> None:
    held = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.parquet"
        command = ["table", str(model), "export", "--parquet", str(path), "--sample", "9", "--json"]
        document = json.loads(CliRunner().invoke(app, command).stdout)
        assert document["schema"] == "ropewalk.table.export/1"
        assert "9 of 28 rows with a token" in document["parquet"]["said"][0]
        held.append(pq.read_table(path)["token_id"].to_pylist())
    assert held[0] == held[1]
    assert len(held[0]) == 9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "export needs to be told where to"),
        (["--npy", "toy"], "toy is a folder; name a file"),
        (["--npy", "nowhere/t.npy"], "there is no folder nowhere"),
        (["--projector", "toy"], "toy is a folder with files in it"),
        (["--projector", "there.txt"], "there.txt is a file; name a folder"),
        (["--parquet", "there.txt"], "there.txt is there already"),
        (["--npy", "t.npy", "--sample", "3"], "could not say which rows they are"),
        (["--parquet", "t.parquet", "--sample", "0"], "a sample of 0 rows"),
        (["--parquet", "t.parquet", "--neighbours", "28"], "28 neighbours were asked for"),
        (["--parquet", "t.parquet", "--neighbours", "-1"], "0 stands for none"),
        (["--word2vec", "t.txt", "--all-rows"], "row 28"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.txt").write_text("mine")
    shown = CliRunner().invoke(app, ["table", str(model), "export", *arguments])
    assert isinstance(shown.exception, UsageError), shown.output
    assert said in str(shown.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there.txt", "toy"]
    assert (tmp_path / "there.txt").read_text() == "mine"


def test_force_writes_over_a_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.npy").write_text("old")
    command = ["table", str(model), "export", "--npy", str(tmp_path / "t.npy"), "--force"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert np.load(tmp_path / "t.npy").shape == (30, 6)


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    save_file({"embed_tokens.weight": torch.ones(0, 4)}, tmp_path / "model.safetensors")
    for rest in (
        ["export", "--parquet", str(tmp_path / "t.parquet")],
        ["clusters"],
        ["map", "--html", str(tmp_path / "t.html")],
    ):
        shown = CliRunner().invoke(app, ["table", str(tmp_path / "model.safetensors"), *rest])
        assert isinstance(shown.exception, RopewalkError), shown.output
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
