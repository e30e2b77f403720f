"""No command prints a line that is wider than the terminal, whatever it tells of.

Commands to copy and lines that end in a path are never broken, and are left out here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from rich.cells import cell_len
from safetensors.torch import save_file
from typer.testing import CliRunner

from ropewalk.cli.main import app

WIDTHS = (40, 60, 80, 100, 120)
UNBROKEN = re.compile(
    r"\s*(command:|report:|model:|(pip|ropewalk|vllm|llama-\w+|\$) |--|The (page|plot) is)"
)


def breakable(line: str) -> bool:
    """Whether a line may be broken: it has several words, and is nothing to copy."""
    return len(line.split()) > 1 and not UNBROKEN.match(line)


def check(width: int, *arguments: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(
        app, [str(each) for each in arguments], env={"COLUMNS": str(width)}, catch_exceptions=False
    )
    assert done.exit_code == code, done.output
    for line in (*done.stdout.splitlines(), *done.stderr.splitlines()):
        assert cell_len(line) <= width or not breakable(line), (arguments, width, line)
    return done.stdout


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A table of 400 rows, some of them equal, zero, or of wide and dangerous tokens."""
    folder = tmp_path / "words"
    folder.mkdir()
    rows = torch.randn(400, 16, generator=torch.Generator().manual_seed(0))
    rows[:9] = 0
    rows[20:60] = rows[20]
    save_file(
        {"embed_tokens.weight": rows, "lm_head.weight": rows + 0.1}, folder / "model.safetensors"
    )
    names = [f"word{i}" for i in range(380)] + [f"日本語のとても長い言葉{i}" for i in range(19)]
    vocabulary = {name: i for i, name in enumerate([*names, "\x1b[2Jevil"])}
    tokenizer = {"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "word0"}}
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "added_tokens": []}))
    return folder


@pytest.fixture
def judged(tmp_path: Path) -> list[str | Path]:
    pairs, analogies = tmp_path / "pairs.txt", tmp_path / "analogies.txt"
    pairs.write_text("".join(f"word{i}\tword{i + 100}\t{i % 10}\n" for i in range(100, 200)))
    analogies.write_text(": a section\nword100 word101 word102 word103\n")
    return ["--pairs", pairs, "--analogies", analogies]


@pytest.mark.parametrize("width", WIDTHS)
def test_tables(width: int, words: Path, judged: list[str | Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    check(width, "table", words)
    wide = "日本語のとても長い言葉3"
    check(width, "table", words, "near", "word70", wide)
    check(width, "table", words, "similarity", *(f"word{i}" for i in range(70, 84)), wide)
    check(width, "table", words, "health")
    check(width, "table", words, "clusters", "-n", "4")
    check(width, "table", words, "map", "--html", page)
    check(width, "table", words, "compare", words)
    check(width, "table", words, "score", *judged)
    check(width, "table", words, "export", "--npy", tmp_path / "rows.npy", "--force")
    check(width, "table", words, "positions")
    positions = tmp_path / "gpt"
    positions.mkdir()
    rows = torch.randn(120, 32, generator=torch.Generator().manual_seed(1))
    save_file({"wpe.weight": rows}, positions / "model.safetensors")
    check(width, "table", positions, "positions")


@pytest.mark.parametrize("width", WIDTHS)
def test_what_needs_no_model(width: int, tiny_model: Path, tmp_path: Path) -> None:
    for topic in ("order", "scale", "encodings"):
        check(width, "explain", topic)
    check(width, "doctor")
    check(width, "audit", tiny_model, "--engines", "--pairs", "all")
    check(width, "convert", tiny_model, "--to", "vllm")
    check(width, "extend", tiny_model, "--to", "16k", "--method", "yarn")
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(f'{{"text": "{"The cat sat. " * 30}"}}\n' for _ in range(9)))
    out = tmp_path / "rows.parquet"
    check(
        width, "pack", texts, "--tokenizer", tiny_model, "--length", "64", "--out", out, "--force"
    )


def test_what_runs_a_model(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grid = ("--lengths", "300,500,700", "--depths", "5", "--trials", "2")
    check(40, "prove", tiny_model, *grid, "--out", "a", "--calibrate", "short")
    check(40, "prove", tiny_model, *grid, "--out", "b", "--rope", "linear:2")
    for width in WIDTHS:
        check(width, "show", "a")
        check(width, "prove", "diff", "a", "b", "--html", "diff.html")
    texts = tmp_path / "texts.txt"
    texts.write_text("The cat sat on the mat. " * 90)
    training = ("--data", texts, "--steps", "3", "--length", "32", "--rows", "2", "--gate", "9")
    check(40, "tune", tiny_model, *training, "--device", "cpu", "--out", "tuned")
    check(40, "loss", tiny_model, "--length", "300", "--window", "128", "--stride", "64")
    check(40, "trace", tiny_model, "The cat sat on the mat because it was tired of it all.")
    check(40, "explain", "join", tiny_model, "--pairs", "2")
    sentences = ("the cat sat on a cat", "one cat was tired", "no cat is here at all today")
    check(40, "table", tiny_model, "context", "cat", *sentences)


def test_a_command_to_copy_is_in_one_line_on_the_narrowest_terminal(
    tiny_model: Path, words: Path
) -> None:
    shown = check(40, "table", words, "near", "word70")
    assert f'  ropewalk table {words} context WORD "SENTENCE" "SENTENCE"' in shown.splitlines()
    served = check(40, "extend", tiny_model, "--to", "16k", "--method", "yarn")
    assert any(len(line) > 60 for line in served.splitlines())


def test_a_fact_of_a_proof_goes_on_under_its_label(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grid = ("--lengths", "300", "--depths", "50%", "--trials", "2")
    lines = check(60, "prove", tiny_model, *grid).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("versions: "))
    assert lines[at + 1].startswith(" " * 13)
    assert lines[at + 1][13] != " "
