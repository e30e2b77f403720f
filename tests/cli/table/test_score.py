"""`ropewalk table MODEL score` as a user meets it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import MissingPartError, ModelFileError, UsageError


def call(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["table", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "# judged\nsnow\train\t4\nsnow\tforge\t1\nlong\tforge\t2\nrain\tforge\t3\nsnow\tzyxwv\t1\n"
    )
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.txt"
    path.write_text(": first\nsnow rain forge mill\nsnow rain forge zyxwv\n: second\na b zz zzz\n")
    return path


def test_pairs_and_analogies_are_scored_with_their_coverage(
    tiny_model: Path, pairs: Path, questions: Path
) -> None:
    shown = call(tiny_model, "score", "--pairs", pairs, "--analogies", questions)
    assert max(map(len, shown.split("input table")[0].splitlines())) <= 80
    assert "4 of 5" in shown
    assert "20.0%" in shown
    assert "zyxwv" in shown
    assert "1 of 2" in shown
    assert "space before" in shown
    assert "A row is a token's identity" in shown


def test_json_names_what_was_left_out(tiny_model: Path, pairs: Path) -> None:
    held = json.loads(call("score", tiny_model, "--pairs", pairs, "--json"))
    assert held["schema"] == "ropewalk.table.score/1"
    (score,) = held["pairs"]
    assert (score["used"], score["total"], score["missing"]) == (4, 5, ["zyxwv"])
    assert held["fold"] is False


def test_pieces_cover_words_of_several_tokens(tiny_model: Path, pairs: Path) -> None:
    held = json.loads(call(tiny_model, "score", "--pairs", pairs, "--pieces", "--json"))
    assert held["pairs"][0]["used"] == 5
    assert held["found"]["pieces"] == 1


def test_layers_stand_beside_the_table(tiny_model: Path, pairs: Path) -> None:
    shown = call(tiny_model, "score", "--pairs", pairs, "--layers", "--frame", "{}")
    for name in ("table", "layer 0", "block 1", "final norm"):
        assert f"\n{name:<11}" in shown
    assert "'{}' (alone)" in shown
    assert "the raw table has" in shown
    held = json.loads(call(tiny_model, "score", "--pairs", pairs, "--layers", "--json"))
    assert held["layers"][0]["name"] == "table"
    assert held["layers"][0]["pairs"][0]["used"] == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--frame", "a {}"), "give --layers, too"),
        (("--layers",), "--layers scores judged pairs"),
    ],
)
def test_what_does_not_go_together_is_a_sentence(
    tiny_model: Path, questions: Path, arguments: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        call(tiny_model, "score", "--analogies", questions, *arguments)


def test_bad_lines_and_a_missing_gensim_are_sentences(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("a b 1\na b\n")
    with pytest.raises(ModelFileError, match=r"bad\.tsv, line 2"):
        call(tiny_model, "score", "--pairs", bad)
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "gensim" else real(name, *a)
    )
    with pytest.raises(MissingPartError, match="pip install gensim"):
        call(tiny_model, "score", "--set", "simlex999")
