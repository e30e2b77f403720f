"""`ropewalk tune` as a user runs it: what it writes and prints, and every way to ask wrongly."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.processes import Started
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
    assert 'class="curve" d="M' in page
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


@pytest.mark.skipif(sys.platform == "win32", reason="sends the signal of Ctrl-C to one process")
def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    _documents(tmp_path)
    options = ["tune", str(tiny_model), "--data", "documents.jsonl", "--steps", "2000"]
    options += ["--length", "32", "--rows", "2", "--device", "cpu", "--out", "run"]
    started = Started(options, tmp_path, environment(tmp_path / "cache"))
    steps = tmp_path / "run" / "losses.jsonl"
    deadline = time.monotonic() + 200
    while not (steps.exists() and steps.read_text().count("\n") > 2):
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.01)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    told = re.search(
        r"^interrupted; step (\d+) of 2000 is kept in run/checkpoints, and the", said, re.M
    )
    assert told is not None, said
    assert "Traceback" not in said
    again = run(*options, "--minutes", "0.0001")
    assert again.returncode == 0, again.stderr
    assert f"going on from step {told[1]}" in again.stderr
    assert f"step {int(told[1]) + 1} of 2000" in " ".join(again.stdout.split())


def test_rows_are_as_long_as_the_checkpoint_claims_where_no_length_is_given(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "short"
    shutil.copytree(tiny_model, folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 64
    (folder / "config.json").write_text(json.dumps(config))
    _documents(tmp_path)
    options = ["--data", "documents.jsonl", "--steps", "1", "--rows", "2", "--device", "cpu"]
    done = run("tune", folder, *options, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "rows of 64 tokens" in done.stdout
    assert "rows of 64 tokens, as long as the checkpoint claims to read; --length" in done.stderr
