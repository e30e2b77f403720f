"""What a log without a terminal holds of a command at work, by a clock that the test winds."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ropewalk.cli.progress import SECONDS_BETWEEN_LINES, Progress, ProofProgress, TuneProgress
from ropewalk.extension.tune.loop import StepResult
from ropewalk.proof.cells import Calibrate
from ropewalk.proof.prove import prove
from ropewalk.proof.settings import ProofSettings


class Clock:
    """Seconds that pass when they are told to, a few at each look."""

    def __init__(self, step: float = 0.0) -> None:
        self.seconds, self.step = 0.0, step

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(set(lines)) == len(lines), "a line came twice"
    return lines


def counts(lines: list[str], phase: str) -> list[int]:
    found = (re.match(rf"{re.escape(phase)} ([\d,]+)/", line) for line in lines)
    return [int(each[1].replace(",", "")) for each in found if each]


def test_a_phase_is_a_line_at_its_start_one_each_half_minute_and_one_at_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = Clock()
    with Progress(now=now) as shown:
        shown.say("asking")
        for done in range(1, 101):
            now.seconds += 1
            shown.share(done, 100)
    lines = logged(capsys)
    assert lines[0] == "asking ..."
    assert [line.split()[1] for line in lines[1:]] == ["30/100", "60/100", "90/100", "100/100"]
    assert lines[1] == "asking 30/100  ETA 1:10, 0:30 passed"
    assert lines[-1] == "asking 100/100 in 1:40"


def test_an_answer_that_was_kept_is_no_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(now=Clock()) as shown:
        shown.say("asking")
        for _ in range(60):
            shown.share(22, 22)
    assert logged(capsys) == ["asking ...", "asking 22/22 in 0:00"]


def test_a_phase_that_comes_again_has_its_lines_again(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(now=Clock()) as shown:
        for _ in range(2):
            shown.say("loading the weights")
            shown.share(3, 3)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["loading the weights ...", "loading the weights 3/3 in 0:00"] * 2


def test_a_count_never_falls_within_a_phase(capsys: pytest.CaptureFixture[str]) -> None:
    now = Clock()
    with Progress(now=now) as shown:
        shown.say("asking")
        for done in (5, 3, 9, 1, 12):
            now.seconds += SECONDS_BETWEEN_LINES
            shown.share(done, 20)
        shown.say("asking again")
        shown.share(1, 4)
    lines = logged(capsys)
    assert counts(lines, "asking") == sorted(counts(lines, "asking"))
    assert counts(lines, "asking again") == [1]


def test_work_that_is_silent_is_spoken_for_every_half_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = Clock()
    with Progress(now=now) as shown:
        shown.say("reading 8,192 tokens at once")
        for _ in range(130):
            now.seconds += 1
            shown.tick()
    assert logged(capsys) == [
        "reading 8,192 tokens at once ...",
        "reading 8,192 tokens at once, 0:30 passed",
        "reading 8,192 tokens at once, 1:00 passed",
        "reading 8,192 tokens at once, 1:30 passed",
        "reading 8,192 tokens at once, 2:00 passed",
        "reading 8,192 tokens at once took 2:10",
    ]


def test_a_command_that_is_mostly_quick_is_silent_until_it_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = Clock()
    with Progress(1.0, now) as shown:
        shown.say("opening the table")
        now.seconds += 0.5
        shown.say("reading the rows")
        shown.tick()
        assert capsys.readouterr().err == ""
        now.seconds += 0.5
        shown.tick()
        shown.say("drawing the page")
    assert logged(capsys) == ["reading the rows ...", "drawing the page ..."]


def test_a_phase_that_broke_has_no_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with Progress(now=Clock()) as shown:
            shown.say("asking")
            shown.share(3, 9)
            raise ValueError("broke")

    with pytest.raises(ValueError, match="broke"):
        work()
    assert logged(capsys) == ["asking ..."]


def test_a_proof_with_calibration_counts_each_phase_by_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # Ten seconds at each look: a line is due again and again.
    settings = ProofSettings(
        model="tiny", lengths=(300, 500), depths=(0.0, 0.5, 1.0), trials=4, controls=1,
        calibrate=Calibrate.FULL, device="cpu", out=tmp_path / "run",
    )  # fmt: skip
    logs = []
    for _ in range(2):
        # The second time everything has been answered.
        with ProofProgress(now=Clock(10.0)) as shown:
            prove(settings, shown.listener())
        lines = logged(capsys)
        logs.append(lines)
        for phase in ("calibrating (full)", "asking"):
            told = counts(lines, phase)
            assert told == sorted(told)
            assert sum(line == f"{phase} ..." for line in lines) == 1
            ends = [line for line in lines if re.match(rf"{re.escape(phase)} .* in \d", line)]
            assert len(ends) == 1
    assert counts(logs[0], "calibrating (full)")[-1] == 2 * 2 * 3 * 4
    assert len(counts(logs[0], "calibrating (full)")) > 2


def test_training_says_step_and_eta_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    now = Clock()
    shown = TuneProgress(now=now)
    with shown:
        shown.begin(100, [])
        for step in range(1, 61):
            now.seconds += 1
            shown.step(StepResult(**_step(step)))
        shown.end()
    lines = logged(capsys)
    assert [line.split(",")[0] for line in lines] == [
        "training ...",
        *(f"training step {step}/100" for step in (30, 60, 60)),
    ]
    assert lines[1].endswith("ETA 1:10, 0:30 passed")
    assert lines[-1].endswith("tokens/s in 1:00")


def _step(step: int) -> dict[str, Any]:
    known = {"step": step, "loss": 3.5, "rate": 2e-5, "norm": 0.7, "seconds": 1.0, "read": 12_345}
    return known | {name: 0 for name in StepResult.__dataclass_fields__ if name not in known}


TUNING = """
import time
from ropewalk.cli.progress import TuneProgress
from ropewalk.extension.tune.loop import StepResult
from tests.cli.test_progress import _step

with TuneProgress() as shown:
    shown.say("reading short text")
    shown.begin(1000, [])
    for step in range(1, 5):
        shown.step(StepResult(**_step(step)))
        time.sleep(0.3)
    shown.end()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("columns", [40, 100])
def test_on_a_terminal_the_eta_of_training_is_whole_at_any_width(columns: int) -> None:
    from tests.cli.test_output import on_a_terminal, unpainted

    root = Path(__file__).parents[2]
    seen, _, code = on_a_terminal(["-c", TUNING], root, columns)
    assert code == 0
    shown = unpainted(seen)
    assert re.search(r"ETA \d+:\d\d(?!\d)", shown)
    assert "…" not in shown
    lines = re.split(r"[\r\n]+", shown)
    assert any(re.search(r"ETA \d+:\d\d\s*$", line) for line in lines)
    assert max(map(len, lines)) <= columns


SLOW_MAP = """
import sys, time
from ropewalk.tables import principal

def slow(*arguments, **named):
    time.sleep(60)

principal.project = slow
sys.argv = ["ropewalk", "table", sys.argv[1], "map", "--html", "map.html"]
from ropewalk.cli.main import main
main()
"""

SLOW_LOSS = """
import sys, time
from ropewalk.models import load

def slow(*arguments, **named):
    time.sleep(60)

load.load = slow
sys.argv = ["ropewalk", "loss", "tiny"]
from ropewalk.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [(SLOW_MAP, "finding the widest axes of 80 rows ..."),
     (SLOW_LOSS, "loading torch and transformers ...")],
    ids=["table map", "loss"],
)  # fmt: skip
def test_slow_work_says_what_it_is_about_soon(tmp_path: Path, script: str, said: str) -> None:
    folder = tmp_path / "toy"
    folder.mkdir()
    save_file({"embed_tokens.weight": torch.zeros(80, 8)}, folder / "model.safetensors")
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stderr=subprocess.PIPE, cwd=tmp_path, text=True
    )
    try:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        begun = time.monotonic()
        assert any(line.strip() == said for line in lines)
        # Most of it is the start of Python and of torch, on a machine that may be busy.
        assert time.monotonic() - begun < 45
    finally:
        process.kill()
        process.communicate()
