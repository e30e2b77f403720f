"""Real processes, really killed."""

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ropewalk.errors import StoreError
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.store import Store

SOURCE = Path(__file__).parents[2] / "src"
CELLS = 40

SLOW_RUN = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from ropewalk.errors import StoreError
from ropewalk.proof.cells import Answer, Outcome, Prompt, Sharing
from ropewalk.proof.plan import Prompts, make_plan
from ropewalk.proof.ask import Alone, Asking, ask
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.store import Store

folder = Path(sys.argv[1])

class Slow:
    def fits(self, length):
        return None

    def answer(self, prompt):
        with (folder.parent / "asked").open("a") as log:
            log.write(prompt.text + "\\n")
        time.sleep(0.06)
        return Answer(Outcome.HIT, -0.1, "said", 0.02)

def make_prompt(cell):
    text = f"{cell.length} {cell.depth} {cell.trial}"
    return Prompt(cell, (1,) * cell.length, (), 0, cell.depth, "key", "value", (), text)

plan = make_plan([16, 32], [0.0, 0.25, 0.5, 0.75], trials=5, control_trials=0)
try:
    with Store.open(folder, RunFacts(model="m")) as store:
        asking = Asking(store, lambda prompt: prompt.text)
        result = ask(plan, Prompts(make_prompt), Alone(Slow()), asking, Sharing.NONE)
        print(result.done, result.remaining, result.interrupted)
except StoreError as error:
    sys.exit(str(error))
"""


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SLOW_RUN, str(folder), str(SOURCE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_questions(log: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if log.is_file() and log.read_text().count("\n") >= count:
            return
        time.sleep(0.005)
    raise TimeoutError(f"{log} never held {count} questions")


def test_runs_killed_again_and_again_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "asked"
    kills = 0
    for wanted in (3, 9, 20, 31):
        process = start(folder)
        wait_for_questions(log, wanted)
        process.kill()
        process.communicate(timeout=30)
        kills += 1
        with Store.read(folder) as store:
            kept = [row.prompt_hash for row in store.rows()]
        asked = log.read_text().splitlines()
        assert len(kept) == len(set(kept))
        assert len(asked) - kills <= len(kept) <= len(asked)
    last = start(folder)
    out, err = last.communicate(timeout=60)
    assert (out, err, last.returncode) == (f"{CELLS} 0 False\n", "", 0)
    with Store.read(folder) as store:
        rows = store.rows()
    assert len({row.prompt_hash for row in rows}) == len({row.cell for row in rows}) == CELLS
    times_asked = Counter(log.read_text().splitlines())
    assert len(times_asked) == CELLS
    # Only what was under way when a process was killed is asked again.
    assert sum(times_asked.values()) <= CELLS + kills


@pytest.mark.skipif(sys.platform == "win32", reason="sends the signal of Ctrl-C to one process")
def test_ctrl_c_ends_cleanly_and_the_same_call_goes_on(tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "asked"
    process = start(folder)
    wait_for_questions(log, 5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    done, remaining, interrupted = out.split()
    assert (int(done) + int(remaining), interrupted, err) == (CELLS, "True", "")
    assert 4 <= int(done) < CELLS
    out, _ = start(folder).communicate(timeout=60)
    assert out == f"{CELLS} 0 False\n"


def test_a_second_run_in_the_same_folder_is_turned_away_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    folder, log = tmp_path / "run", tmp_path / "asked"
    first = start(folder)
    wait_for_questions(log, 1)
    second = start(folder)
    out, err = second.communicate(timeout=30)
    assert (out, second.returncode) == ("", 1)
    assert err.strip() == (
        f"another run (process {first.pid}) is writing to {folder}: wait for it, or choose "
        "another --out folder."
    )
    out, _ = first.communicate(timeout=60)
    assert out == f"{CELLS} 0 False\n"
    assert log.read_text().count("\n") == CELLS


def test_a_killed_run_leaves_no_lock_behind(tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "asked"
    process = start(folder)
    wait_for_questions(log, 1)
    with pytest.raises(StoreError, match=f"process {process.pid}"):
        Store.open(folder, RunFacts(model="m"))
    process.kill()
    process.communicate(timeout=30)
    Store.open(folder, RunFacts(model="m")).close()
