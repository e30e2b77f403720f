"""Output into pipes, full devices and poor terminals; progress on a real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.cli.progress import cell_words, clock
from ropewalk.prove.cells import Cell, Control

Run = Callable[..., subprocess.CompletedProcess[str]]

ROPEWALK = f"{sys.executable} -m ropewalk"


@pytest.fixture
def config(tmp_path: Path, llama_config: dict[str, Any]) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(llama_config))
    return path


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=folder, check=False
    )


def test_audit_json_is_one_document(run: Run, config: Path) -> None:
    done = run("audit", config, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["claimed"]["tokens"] == 4096


@pytest.mark.parametrize(
    "surroundings",
    [
        {"NO_COLOR": "1"},
        {"TERM": "dumb"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"COLUMNS": "20"},
    ],
)
def test_an_audit_is_plain_text_in_any_surroundings(
    run: Run, tmp_path: Path, llama_config: dict[str, Any], surroundings: dict[str, str]
) -> None:
    folder = tmp_path / "Modéle \x1b[31m 模型"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(llama_config))
    done = run("audit", folder, env=surroundings)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "4096" in done.stdout


def test_a_name_that_no_encoding_holds_is_printed_in_escapes(run: Run) -> None:
    done = run("audit", os.fsdecode(b"\xff\x1b[31m.json"), env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 2
    assert "\\udcff\\x1b[31m.json" in done.stderr


@pytest.mark.parametrize("command", ["audit config.json --pairs all", "--help", "doctor"])
def test_a_reader_that_goes_away_is_no_error(config: Path, command: str) -> None:
    # The reader is gone before the first byte: `head` may be slower than a pipe is long.
    line = f"{{ sleep 0.2; {ROPEWALK} {command}; }} | true; exit ${{PIPESTATUS[0]}}"
    done = shell(line, config.parent)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "command", ["audit config.json", "audit config.json --json", "--help", "--version", "doctor"]
)
def test_output_that_cannot_be_written_is_one_sentence(config: Path, command: str) -> None:
    done = shell(f"{ROPEWALK} {command} > /dev/full", config.parent)
    assert done.returncode == 1
    assert done.stderr == "ropewalk: the output cannot be written: No space left on device\n"


def test_a_closed_output_is_no_traceback(config: Path) -> None:
    done = shell(f"{ROPEWALK} audit config.json >&-", config.parent)
    assert "Traceback" not in done.stderr


def test_progress_into_a_pipe_is_plain_lines(run: Run, tiny_model: Path) -> None:
    done = run("prove", tiny_model, "--lengths", "300", "--depths", "50%", "--trials", "2")
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[:2] == ["loading torch and transformers ...", "loading the weights ..."]
    assert lines[2].startswith("5 prompts, 1,200 tokens, kept in ropewalk-runs/tiny-llama-")
    assert re.fullmatch(r"asked 5/5  ETA 0:00, \d+:\d\d passed", lines[-1])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal_is_a_bar_with_an_eta_through_all_phases(
    tmp_path: Path, tiny_model: Path
) -> None:
    import pty

    ours, theirs = pty.openpty()
    grid = ("--lengths", "300,700", "--depths", "0%,50%", "--trials", "3", "--out", "run")
    process = subprocess.Popen(
        [sys.executable, "-m", "ropewalk", "prove", str(tiny_model), *grid],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "HF_HUB_OFFLINE": "1"},
    )
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"\x1b" not in out
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    for words in (
        "loading torch and transformers",
        "loading the weights",
        "control: needle only",
    ):
        assert words in shown
    assert re.search(r"16 prompts, [\d,]+ tokens, kept in run", shown)
    assert re.search(r"\d+/16  ETA \d+:\d\d", shown)
    # The bar takes itself away at the end.
    assert seen.decode().rstrip().endswith("\x1b[2K")


def test_a_duration_is_written_as_a_clock_shows_it() -> None:
    shown = [clock(seconds) for seconds in (-3, 0, 59.6, 65, 7389)]
    assert shown == ["0:00", "0:00", "1:00", "1:05", "2:03:09"]


def test_every_kind_of_prompt_has_its_words() -> None:
    assert cell_words(Cell(8000, 0.25, 3)) == "8,000 tokens at 25%"
    words = {cell_words(Cell(8000, 0.0, 0, control)) for control in Control}
    assert len(words) == len(Control)
