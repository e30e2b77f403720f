"""Whole proofs of a tiny random model, in real processes: what is printed, kept and continued."""

from __future__ import annotations

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import StoreError
from ropewalk.proof.store import Store
from tests.processes import Started

Run = Callable[..., subprocess.CompletedProcess[str]]

ALONE = ("--sharing", "none")
GRID = ("--lengths", "300,700", "--depths", "0%,50%", "--trials", "1", "--out", "run", *ALONE)


def without_report(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("report: ")]


def hashes(folder: Path) -> list[str]:
    with Store.read(folder) as store:
        return [row.prompt_hash for row in store.rows()]


def answered(folder: Path) -> bool:
    """Whether a run that has just begun has kept an answer by now."""
    try:
        return bool(hashes(folder))
    except StoreError:
        return False


def test_show_prints_what_prove_printed_and_every_prompt_of_it(
    here: Run, tmp_path: Path, tiny_model: Path
) -> None:
    proved = here("prove", tiny_model, *GRID, "--threshold", "absolute:0.7")
    assert proved.returncode == 0, proved.stderr
    assert "report: run/report.html" in proved.stdout
    assert "accuracy 0.7, absolute" in proved.stdout
    assert "claimed      4,096 tokens (max_position_embeddings)" in proved.stdout
    assert "\x1b" not in proved.stdout + proved.stderr
    shown = here("show", "run")
    assert shown.stdout.splitlines() == without_report(proved.stdout)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "accuracy 0.9, absolute" in here("show", "run", "--threshold", "absolute:0.9").stdout

    with Store.read(tmp_path / "run") as store:
        texts = [store.prompt_text(row.prompt_hash) for row in store.rows()]
    for cell in ("300,0,0", "700,50,0", "0,0,0,needle-only", "300,0,0,no-needle"):
        printed = here("show", "run", "--cell", cell)
        assert printed.stdout in texts, cell
        assert "expected" in printed.stderr
    absent = here("show", "run", "--cell", "300,25,0")
    assert (absent.returncode, absent.stdout) == (2, "")
    assert "holds no answer" in absent.stderr


def test_json_is_one_document_and_csv_is_whole(here: Run, tmp_path: Path, tiny_model: Path) -> None:
    done = here("prove", tiny_model, *GRID, "--json", "--csv", "answers.csv")
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0
    assert document["summary"]["lengths"] == [300, 700]
    assert document["summary"]["facts"]["command"].endswith("--json --csv answers.csv")
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["prompt_hash"] for row in rows] == [row["prompt_hash"] for row in document["rows"]]
    assert [row["prompt_hash"] for row in rows] == hashes(tmp_path / "run")
    assert "report: run/report.html" in done.stderr


def limited(size: int) -> Callable[[], None]:
    """No file of the process grows beyond `size` bytes, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_disk_that_fills_up_loses_nothing_and_the_same_command_goes_on(
    run: Run, tmp_path: Path, tiny_model: Path
) -> None:
    command = ("prove", tiny_model, "--lengths", "200,300", "--trials", "4", "--out", "run", *ALONE)
    full = run(*command, before=limited(40_000))
    assert (full.returncode, full.stdout) == (1, "")
    assert "Traceback" not in full.stderr
    assert full.stderr.splitlines()[-1].startswith("ropewalk: cannot keep an answer in run")
    kept = hashes(tmp_path / "run")
    with Store.read(tmp_path / "run") as store:
        before = {row.prompt_hash: row.answer for row in store.rows()}
    assert 0 < len(kept) < 40
    assert not list((tmp_path / "run").glob(".report*"))

    rest = run(*command)
    assert rest.returncode == 0, rest.stderr
    with Store.read(tmp_path / "run") as store:
        after = {row.prompt_hash: row.answer for row in store.rows()}
    assert len(after) == 2 * 5 * 4 + 2
    assert {key: after[key] for key in before} == before


def test_a_report_that_cannot_be_written_comes_after_the_map_and_leaves_no_half_file(
    here: Run, tmp_path: Path, tiny_model: Path
) -> None:
    (tmp_path / "run" / "report.html" / "taken").mkdir(parents=True)
    done = here("prove", tiny_model, *GRID)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr.splitlines()[-1]
    assert "all depths" in done.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"results.sqlite", "run.lock", "report.html"}


def started(folder: Path, model: Path, *arguments: str) -> Started:
    environment = {**os.environ, "ROPEWALK_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    return Started(["prove", str(model), *arguments], folder, environment)


@pytest.mark.skipif(sys.platform == "win32", reason="sends the signal of Ctrl-C to one process")
def test_a_second_run_is_turned_away_and_ctrl_c_ends_the_first_with_a_map(
    run: Run, tmp_path: Path, tiny_model: Path
) -> None:
    grid = ("--lengths", "300,700", "--trials", "2000", "--out", "run", *ALONE)
    first = started(tmp_path, tiny_model, *grid)
    deadline = time.monotonic() + 120
    # The map of a run without any answer says something else.
    while not answered(tmp_path / "run"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    second = run("prove", tiny_model, *grid)
    assert (second.returncode, second.stdout) == (1, "")
    sentence = second.stderr.splitlines()[-1]
    assert sentence.startswith(f"ropewalk: another run (process {first.pid}) is writing to run")

    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=120)
    assert first.returncode == 130
    assert "Not finished" in out
    assert "Traceback" not in err
    kept = len(hashes(tmp_path / "run"))
    assert err.splitlines()[-1] == (
        f"interrupted: {kept} of 20002 answers are kept; the same command goes on"
    )
    assert (tmp_path / "run" / "report.html").is_file()
    # Also the fields that were never reached are shown again.
    assert run("show", "run").stdout.splitlines() == without_report(out)


@pytest.mark.skipif(sys.platform == "win32", reason="sends the signal of Ctrl-C to one process")
def test_ctrl_c_while_the_model_is_loaded_is_one_sentence(tmp_path: Path, tiny_model: Path) -> None:
    process = started(tmp_path, tiny_model, *GRID)
    assert process.stderr is not None
    while "loading the weights" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "interrupted before the first prompt\n")
    assert not (tmp_path / "run").exists()


def test_a_run_out_of_time_says_what_is_kept(here: Run, tiny_model: Path) -> None:
    done = here("prove", tiny_model, *GRID, "--minutes", "0.0001")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1].startswith("out of time: 0 of 8 answers are kept")
    assert "No answers yet" in done.stdout


@pytest.mark.parametrize(
    "surroundings",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii", "TERM": "dumb", "NO_COLOR": "1"},
    ],
)
def test_a_terminal_of_pure_ascii_is_enough(
    run: Run, tiny_model: Path, surroundings: dict[str, str]
) -> None:
    done = run("prove", tiny_model, *GRID, env=surroundings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert done.stderr.isascii()
