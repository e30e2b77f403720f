"""Ctrl-C: at any moment of a run, with one process and with two; what is kept, and what is said."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.extension.tune.interrupt import Interrupted
from ropewalk.extension.tune.loss import LossModel
from ropewalk.extension.tune.session import Tuned, tune
from ropewalk.extension.tune.training_settings import TuneSettings
from tests.extension.tune.test_session import losses, six
from tests.ranks import ROOT, free_port

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="sends the signal of Ctrl-C to one process"
)


@pytest.fixture(scope="module")
def dropping(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """The small checkpoint with dropout in its attention: every step draws random numbers."""
    folder = tmp_path_factory.mktemp("dropping") / "tiny"
    shutil.copytree(checkpoint, folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "attention_dropout": 0.3}))
    return folder


def _settings(model: Path, documents: Path, out: Path) -> TuneSettings:
    return six(model, documents, out, every=100, attention="sdpa")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, dropping: Path, documents: Path) -> Tuned:
    """Six steps without a stop."""
    done = _run(_settings(dropping, documents, tmp_path_factory.mktemp("plain") / "out"))
    assert done is not None
    return done


def _run(asked: TuneSettings) -> Tuned | None:
    """As in a process of its own, whose random numbers begin from the same seed."""
    torch.manual_seed(0)
    return tune(asked)


def _after(calls: int, function: Callable[..., Any], presses: int = 1) -> Callable[..., Any]:
    """`function`, and in its call number `calls` Ctrl-C, so often."""
    seen = 0

    def pressed(*args: Any, **given: Any) -> Any:
        nonlocal seen
        seen += 1
        found = function(*args, **given)
        if seen == calls:
            for _ in range(presses):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
        return found

    return pressed


def _kept(out: Path) -> list[str]:
    return sorted(each.name for each in (out / "checkpoints").glob("*"))


# Two rows make a step: call 8 is the last row of step 4, in which weights are still those of 3.
@pytest.mark.parametrize(("call", "step"), [(7, 3), (8, 3), (3, 1)])
def test_ctrl_c_in_a_step_keeps_the_one_before_and_the_same_command_goes_on_to_the_same_losses(
    plain: Tuned, dropping: Path, documents: Path, tmp_path: Path, call: int, step: int
) -> None:
    asked = _settings(dropping, documents, tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LossModel, "forward", _after(call, LossModel.forward))
        with pytest.raises(Interrupted, match=f"step {step} of 6 is kept in .* goes on from there"):
            _run(asked)
    assert _kept(asked.out) == [f"step-{step:08}"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    done = _run(asked)
    assert done is not None
    # With the very random numbers, which move losses by far more than this: as if the step that
    # was cut off had not been begun.
    assert losses(done) == pytest.approx(losses(plain), abs=1e-5)


def test_ctrl_c_while_weights_are_changed_waits_for_the_step_and_keeps_it(
    plain: Tuned, dropping: Path, documents: Path, tmp_path: Path
) -> None:
    asked = _settings(dropping, documents, tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", _after(2, torch.optim.AdamW.step))
        with pytest.raises(Interrupted, match=r"step 2 of 6 is kept in "):
            _run(asked)
    assert _kept(asked.out) == ["step-00000002"]
    done = _run(asked)
    assert done is not None
    assert losses(done) == pytest.approx(losses(plain), abs=1e-5)


def test_a_second_ctrl_c_does_not_wait_and_says_what_is_lost(
    plain: Tuned, dropping: Path, documents: Path, tmp_path: Path
) -> None:
    """The weights may be half of one step and half of the next, so none are kept."""
    asked = _settings(dropping, documents, tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", _after(3, torch.optim.AdamW.step, presses=2))
        with pytest.raises(Interrupted, match=r"the 2 steps taken are lost, .* begins again"):
            _run(asked)
    assert not _kept(asked.out)
    done = _run(asked)
    assert done is not None
    assert losses(done) == pytest.approx(losses(plain), abs=1e-5)


def test_ctrl_c_before_the_first_step_says_that_nothing_is_lost(
    dropping: Path, documents: Path, tmp_path: Path
) -> None:
    from ropewalk.extension.tune.gate import ShortText

    asked = _settings(dropping, documents, tmp_path / "out")
    said = "before the first step was done: nothing was trained that could be lost, and the same"
    for owner, name in ((ShortText, "losses"), (LossModel, "forward")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, _after(1, getattr(owner, name)))
            with pytest.raises(Interrupted, match=said):
                _run(asked)
        assert not _kept(asked.out)


def test_ctrl_c_behind_the_last_step_says_that_the_model_is_there(
    plain: Tuned, dropping: Path, documents: Path, tmp_path: Path
) -> None:
    from ropewalk.extension.tune.gate import ShortText

    asked = _settings(dropping, documents, tmp_path / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShortText, "losses", _after(2, ShortText.losses))
        with pytest.raises(Interrupted, match="the same command goes on with measuring the model"):
            _run(asked)
    done = _run(asked)
    assert done is not None
    assert losses(done) == pytest.approx(losses(plain), abs=1e-5)
    assert done.gate.after == pytest.approx(plain.gate.after, abs=1e-5)


SLOW = """
import sys, time
from pathlib import Path
from ropewalk.extension.tune.interrupt import Interrupted
from ropewalk.extension.tune.loop import Trainer
from ropewalk.extension.tune.session import tune
from tests.extension.tune.test_interrupt import _settings
step = Trainer.step
def slow(self):
    time.sleep(0.4)
    return step(self)
Trainer.step = slow
try:
    tune(_settings(*map(Path, sys.argv[1:4])))
except Interrupted as stopped:
    print(stopped, flush=True)
    import os
    os._exit(130)
"""


@pytest.mark.parametrize(("to", "number"), [([1], signal.SIGINT), ([0, 1], signal.SIGTERM)])
def test_two_processes_stop_together_whichever_is_told_and_a_run_of_one_goes_on(
    checkpoint: Path, documents: Path, tmp_path: Path, to: list[int], number: signal.Signals
) -> None:
    out = tmp_path / "out"
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW, str(checkpoint), str(documents), str(out)],
            cwd=ROOT,
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        deadline = time.monotonic() + 200
        while not ((out / "losses.jsonl").exists() and (out / "losses.jsonl").read_text()):
            assert time.monotonic() < deadline
            assert all(each.poll() is None for each in started)
            time.sleep(0.02)
        for rank in to:
            started[rank].send_signal(number)
        said = [each.communicate(timeout=60) for each in started]
    finally:
        for each in started:
            each.kill()
            each.communicate()
    assert [each.returncode for each in started] == [130, 130], said
    told = re.fullmatch(r"interrupted; step (\d) of 6 is kept in .* from there\n", said[0][0])
    assert told is not None, said
    assert said[1][0] == "\n"
    assert _kept(out) == [f"step-0000000{told[1]}"]
    assert len((out / "losses.jsonl").read_text().splitlines()) == int(told[1])
    done = tune(_settings(checkpoint, documents, out))
    assert done is not None
    assert [each.step for each in done.steps] == [1, 2, 3, 4, 5, 6]
