"""`ropewalk table MODEL health` as a user runs it, on real tables and on damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.cli.table.health import rows_of
from ropewalk.errors import UsageError
from ropewalk.tables.health.check import check_health
from ropewalk.tables.open import open_table


def _model(folder: Path, rows: Tensor, pieces: list[str] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    save_file({"model.embed_tokens.weight": rows}, folder / "model.safetensors")
    if pieces is not None:
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    return folder


def _run(model: Path | str, *options: str) -> Any:
    return CliRunner().invoke(app, ["table", str(model), "health", *options])


def _refused(shown: Any) -> str:
    """The sentence that `ropewalk` prints before it ends with exit code 2."""
    assert isinstance(shown.exception, UsageError), shown.output
    assert shown.exception.exit_code == 2
    assert not shown.stdout
    return str(shown.exception)


def test_every_section_names_its_definition_and_fits_the_line(tmp_path: Path) -> None:
    pieces = ["[PAD]", *(f"[unused{n}]" for n in range(9)), *(f"word{n}" for n in range(70))]
    rows = torch.randn(80, 6, generator=torch.Generator().manual_seed(1))
    rows[1:10] = rows[1]
    shown = _run(_model(tmp_path / "m", rows, pieces), "-k", "3", "--sample", "64")
    assert shown.exit_code == 0, shown.output
    for heading, source in {
        "NORMS": "2405.05417",
        "EQUAL ROWS": "same bits",
        "DECODED AND ENCODED AGAIN": "section 3.1",
        "UNDER-TRAINED CANDIDATES": "Fishing for Magikarp",
        "ISOTROPY": "1702.01417",
        "INPUT AND OUTPUT TABLE": "1608.05859",
        "NEAR DUPLICATES": "cosine",
        "HUBNESS": "Radovanovic",
    }.items():
        section = shown.output.partition(f"\n{heading}\n")[2].partition("\n\n")[0]
        assert source in section, heading
    assert "9 named as unused or reserved: rows 1-9" in shown.output
    said = " ".join(shown.output.split())
    assert "not verdicts" in said
    assert "weight decay" in said
    assert "A row is a token's identity" in shown.output
    assert all(len(line) <= 100 for line in shown.stdout.splitlines()[:-4])


def test_json_is_one_document_with_the_seed_and_every_part(tmp_path: Path) -> None:
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    rows[3, 1] = torch.nan
    shown = _run(_model(tmp_path / "m", rows), "--json", "--seed", "5", "--top", "2")
    held = json.loads(shown.stdout)
    assert held["schema"] == "ropewalk.table.health/1"
    assert held["asked"] == {
        "top": 2, "sample": 1024, "seed": 5, "all_rows": False, "unused": [],
    }  # fmt: skip
    assert held["not_finite"]["ranges"] == [[3, 3]]
    assert held["counted"] == 39
    assert held["nearest"]["hubness"]["queries"] == 39
    assert len(held["norms"]["lowest"]) == 2
    assert held["view"] == "raw"


def test_the_cost_of_all_rows_is_told_before_a_sample_is_searched(tmp_path: Path) -> None:
    shown = _run(_model(tmp_path / "m", torch.randn(40, 6)), "--sample", "8")
    assert "nearest 10 of 8 sampled rows among 40" in shown.stderr
    assert "all rows would be" in shown.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--top", "0"], "top is 0; it is 1 or more"),
        (["-k", "-3"], "top is -3"),
        (["--sample", "0"], "sample is 0; it is 1 or more"),
        (["--seed", "-1"], "the seed is -1"),
        (["--unused", "40"], "it has 40 rows, 0 to 39"),
        (["--unused", "5,x"], "--unused has 'x'; it takes rows like 5,7-9"),
        (["--role", "positions"], "positions"),
        (["--tensor", "nothing"], "no tensor 'nothing'"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(
    tmp_path: Path, options: list[str], said: str
) -> None:
    model = _model(tmp_path / "m", torch.randn(40, 6))
    assert said in _refused(_run(model, *options))


def test_a_table_of_positions_is_sent_to_its_own_command(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    text = _refused(_run(_model(folder, torch.randn(4, 4)), "--role", "positions"))
    assert f"ropewalk table {folder} positions" in text
    save_file({"wpe.weight": torch.randn(4, 4)}, folder / "model.safetensors")
    with pytest.raises(UsageError, match="ropewalk table MODEL positions"):
        check_health(open_table(folder, "positions"))


@pytest.mark.parametrize("shape", [(1, 8), (9, 1), (1, 1), (2, 3)])
def test_the_smallest_tables_have_a_report(tmp_path: Path, shape: tuple[int, int]) -> None:
    shown = _run(_model(tmp_path / "m", torch.ones(shape)))
    assert shown.exit_code == 0, shown.output
    assert f"{shape[0]} rows, no vocabulary" in shown.output


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf"), 1e30])
def test_a_table_without_one_good_row_has_a_report(tmp_path: Path, value: float) -> None:
    model = _model(tmp_path / "m", torch.full((5, 4), value))
    shown = _run(model)
    assert shown.exit_code == 0, shown.output
    assert "below, 0 rows count" in shown.output
    assert "nothing to measure" in shown.output
    assert json.loads(_run(model, "--json").stdout)["norms"] is None


def test_a_vocabulary_larger_or_smaller_than_the_table_is_counted(tmp_path: Path) -> None:
    pieces = ["[PAD]", "a", "b", "c"]
    shown = _run(_model(tmp_path / "m", torch.randn(3, 4), pieces))
    assert "tokens without a row  1" in shown.output
    rows = torch.randn(6, 4)
    shown = _run(_model(tmp_path / "m", rows, pieces))
    assert "without a token       2: rows 4-5" in shown.output
    assert "4 rows count" in shown.output
    shown = _run(tmp_path / "m", "--all-rows")
    assert "6 rows count" in shown.output


def test_control_characters_of_tokens_never_reach_the_terminal(tmp_path: Path) -> None:
    pieces = ["\x1b[2Jgone", "bell\x07", "\u202eright", "x"]
    rows = torch.randn(4, 4)
    rows[1] = rows[0]
    shown = _run(_model(tmp_path / "m", rows, pieces))
    assert shown.exit_code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(shown.output)
    assert "<0x1B>[2Jgone" in shown.output


def test_rows_are_read_from_numbers_and_stretches() -> None:
    assert rows_of("5, 7-9") == (5, 7, 8, 9)
    assert rows_of("") == ()
    for text in ("9-7", "-3", "1-", "²", "5;6", "0-999999999", ",", "1e3"):
        with pytest.raises(UsageError, match="--unused has"):
            rows_of(text)
