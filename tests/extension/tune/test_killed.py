"""A run killed by force goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ropewalk.extension.tune.session import tune
from tests.extension.tune.test_session import losses, six

# Slow enough for the test to see the second step before the last, however busy the machine is.
PROGRAM = """
import sys, time
from pathlib import Path
from ropewalk.extension.tune.loop import Trainer
from ropewalk.extension.tune.session import tune
from tests.extension.tune.test_session import six
step = Trainer.step
def slow(self):
    time.sleep(0.5)
    return step(self)
Trainer.step = slow
tune(six(*map(Path, sys.argv[1:4])))
"""


def test_a_run_killed_at_any_moment_goes_on_to_the_same_curve(
    checkpoint: Path, documents: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(checkpoint), str(documents), str(out)],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not (out / "checkpoints" / "step-00000002").exists():
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.002)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert not (out / "model").exists()
    # What a process leaves that dies while it writes a checkpoint and a line.
    half = out / "checkpoints" / ".making-00000004"
    half.mkdir(exist_ok=True)
    (half / "__0_0.distcp").write_bytes(b"half")
    with (out / "losses.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')

    plain = tune(six(checkpoint, documents, tmp_path / "plain"))
    assert plain is not None
    done = tune(six(checkpoint, documents, out))
    assert done is not None
    assert losses(done) == pytest.approx(losses(plain), abs=1e-6)
    assert [each.step for each in done.steps] == [1, 2, 3, 4, 5, 6]
    assert not half.exists()
    assert [each.name for each in (out / "checkpoints").iterdir()] == ["step-00000006"]
