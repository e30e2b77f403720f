"""Output into pipes, full devices and poor terminals; progress on a real one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.cli.progress import cell_words, clock
from ropewalk.proof.cells import Cell, Control

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
    begin = lines.index("loading the weights ...") + 1
    assert lines[0] == "loading torch and transformers ..."
    assert all(phase.endswith(" ...") for phase in lines[:begin])
    sharing, budget, spent, place = lines[begin : begin + 4]
    assert sharing.startswith("branches: the haystack of a trial is read once")
    assert budget.startswith("5 prompts, ")
    assert " tokens to read (branches: " in budget
    assert re.match(
        r"about \d+ seconds at the pace of a short text, key-value cache: \d+ MiB", spent
    )
    assert place.startswith("kept in ropewalk-runs/tiny-llama-")
    assert lines[-2] == "asking ..."
    assert re.fullmatch(r"asking 5/5 in \d+:\d\d", lines[-1])


DEQUANTISING = """
import sys, time
from ropewalk.cli import progress

progress.SECONDS_BETWEEN_LINES = 0.1
with progress.Progress() as shown:
    shown.say("dequantising, once")
    for step in range(5):
        shown.share(step, 4)
        time.sleep(0.15)
    shown.say("loading the weights")
    time.sleep(0.3)
"""


def on_a_terminal(arguments: list[str], folder: Path, columns: int = 100) -> tuple[str, bytes, int]:
    """Run Python with stderr on a pseudo-terminal: what it showed there, stdout, exit code."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=folder,
        env={
            **os.environ,
            "TERM": "xterm-256color",
            "COLUMNS": str(columns),
            "HF_HUB_OFFLINE": "1",
        },
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            # Linux says so when the other end is closed.
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    return seen.decode(), out, process.returncode


def unpainted(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal_is_a_bar_with_an_eta_through_all_phases(
    tmp_path: Path, tiny_model: Path
) -> None:
    grid = ("--lengths", "300,700", "--depths", "0%,50%", "--trials", "3", "--out", "run")
    prove = ["-m", "ropewalk", "prove", str(tiny_model), *grid]
    seen, out, exit_code = on_a_terminal(prove, tmp_path)
    assert exit_code == 0
    assert b"\x1b" not in out
    shown = unpainted(seen)
    assert "loading torch and transformers" in shown
    assert "loading the weights" in shown
    assert "control: needle only" in shown
    assert re.search(r"16 prompts, [\d,]+ tokens to read", shown)
    assert "kept in run" in shown
    assert re.search(r"\d+/16 +ETA \d+:\d\d", shown)
    # The bar takes itself away at the end.
    assert seen.rstrip().endswith("\x1b[2K")


AT_ONCE = """
from ropewalk.cli.progress import Progress

with Progress() as shown:
    for phase in ("one", "two", "three"):
        shown.say(phase)
        shown.share(0, 4)
        shown.share(1, 4)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_phases_that_are_over_before_a_tick_of_the_clock_are_seen(tmp_path: Path) -> None:
    seen, _, exit_code = on_a_terminal(["-c", AT_ONCE], tmp_path)
    assert exit_code == 0
    for phase in ("one", "two", "three"):
        assert re.search(rf"{phase} \S+ +1/4 +ETA 0:00", unpainted(seen))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_phase_whose_share_is_known_has_an_eta_and_the_next_one_starts_afresh(
    tmp_path: Path,
) -> None:
    seen, _, exit_code = on_a_terminal(["-c", DEQUANTISING], tmp_path)
    assert exit_code == 0
    shown = unpainted(seen)
    assert re.search(r"dequantising, once \S+ [123]/4 +ETA 0:0\d", shown)
    assert re.search(r"loading the weights \S+ +0:00 passed", shown)


def test_shares_of_a_phase_are_lines_in_a_pipe(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEQUANTISING],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert lines[0] == "dequantising, once ..."
    assert re.fullmatch(r"dequantising, once 1/4  ETA 0:0\d, 0:0\d passed", lines[1])
    ended = [line for line in lines if re.fullmatch(r"dequantising, once 4/4 in 0:0\d", line)]
    assert len(ended) == 1
    assert "loading the weights ..." in lines


def test_a_duration_is_written_as_a_clock_shows_it() -> None:
    shown = [clock(seconds) for seconds in (-3, 0, 59.6, 65, 7389)]
    assert shown == ["0:00", "0:00", "1:00", "1:05", "2:03:09"]


def test_every_kind_of_prompt_has_its_words() -> None:
    assert cell_words(Cell(8000, 0.25, 3)) == "8,000 tokens at 25%"
    words = {cell_words(Cell(8000, 0.0, 0, control)) for control in Control}
    assert len(words) == len(Control)
