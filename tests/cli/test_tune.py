"""`ropewalk tune` as a user runs it: what it writes and prints, and every way to ask wrongly."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.ranks import two_ranks

Run = Callable[..., subprocess.CompletedProcess[str]]


def _documents(folder: Path) -> Path:
    path = folder / "documents.jsonl"
    texts = ["The harbour lay still. " * (number % 9 + 1) for number in range(40)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_tune_trains_measures_and_writes_a_model_and_a_report(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    _documents(tmp_path)
    options = ["--data", "documents.jsonl", "--steps", "3", "--length", "32", "--rows", "2"]
    options += ["--lr", "1e-3", "--device", "cpu", "--out", "run"]
    done = run("tune", tiny_model, *options, "--gate", "0.5")
    assert done.returncode == 0, done.stderr
    for words in ("3 steps", "rows of 32 tokens", "--gate 0.5 (50 %) passes", "model: run/model"):
        assert words in done.stdout
    assert "step 3/3, loss" in done.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<script" not in page
    assert 'class="curve main" d="M' in page
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.*"))

    # Done is done: the same command shows it again, and takes no step.
    again = run("tune", tiny_model, *options, "--gate", "0.5", "--json")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert [each["step"] for each in told["steps"]] == [1, 2, 3]
    assert told["gate"]["passed"] is True

    # A gate of nothing at all on a model that was ruined.
    ruined = ["--lr", "5", "--out", "ruined", "--gate", "0"]
    failed = run("tune", tiny_model, *options[:8], *ruined, "--device", "cpu")
    assert failed.returncode == 1
    assert "the gate of 0 fails; the model is kept apart in ruined/model-failed-gate" in (
        failed.stderr
    )


def test_several_processes_end_without_taking_their_interpreters_down(
    tiny_model: Path, tmp_path: Path
) -> None:
    # A thread of the process group that is left would abort the process there, now and then.
    ask = "import atexit; atexit.register(print, 'taken down'); from ropewalk.cli.main import main;"
    options = ["--data", _documents(tmp_path), "--steps", "1", "--length", "32", "--rows", "2"]
    options += ["--device", "cpu", "--out", tmp_path / "run"]
    first, second = two_ranks(f"{ask} main()", "tune", tiny_model, *options, seconds=200)
    assert "1 steps, 64 tokens read" in first
    assert second == ""
    assert "taken down" not in first


def test_what_cannot_be_is_one_sentence_and_writes_nothing(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    _documents(tmp_path)
    usual = ["--data", "documents.jsonl", "--steps", "3", "--out", "run", "--length", "32"]
    for extra, words in (
        (["--context-parallel", "2"], "rows cut over several processes are not trained on yet"),
        (["--length", "1"], "--length 1 is impossible: a row needs 2 tokens"),
    ):
        done = run("tune", tiny_model, *usual, *extra)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "run").exists()
