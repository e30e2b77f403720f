"""Whole proofs of a real model, some in processes that are really killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ropewalk.errors import LengthError, StoreError, UsageError
from ropewalk.listener import Listener
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row, Sharing
from ropewalk.proof.facts import IDENTITY
from ropewalk.proof.grid import default_lengths
from ropewalk.proof.progress import Event
from ropewalk.proof.prove import Proof, prove
from ropewalk.proof.settings import DEFAULT_DEPTHS, DEFAULT_TRIALS, ProofSettings
from ropewalk.proof.statistics.tally import summarise
from ropewalk.proof.store import Store
from tests.processes import Started

SHORT = ProofSettings("tiny", lengths=(150, 200), depths=(0.0, 1.0), trials=1, sharing=Sharing.NONE)
"""Of the embedded model: a real one, and loaded in no time."""


def asked_by(settings: ProofSettings) -> tuple[Proof, list[Row]]:
    new: list[Row] = []

    def note(event: Event) -> None:
        if event.row is not None:
            new.append(event.row)

    return prove(settings, Listener(event=note)), new


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    return prove(replace(SHORT, out=tmp_path_factory.mktemp("runs") / "run"))


@pytest.mark.model
def test_a_short_proof_answers_every_cell_and_says_how_it_was_made(
    tmp_path: Path, smollm2_gguf: Path
) -> None:
    assert smollm2_gguf.is_file()
    proof = prove(replace(SHORT, model="smollm2", out=tmp_path / "run", command="ropewalk x"))
    assert (proof.result.done, proof.result.remaining) == (6, 0)
    by_control = {row.cell.control: row for row in proof.rows}
    assert by_control[Control.NEEDLE_ONLY].answer.outcome is Outcome.HIT
    assert by_control[Control.NO_NEEDLE].answer.outcome is Outcome.MISS
    grid = [row for row in proof.rows if row.cell.control is Control.NONE]
    assert [row.actual_length for row in grid] == [150, 150, 200, 200]
    assert [row.actual_depth for row in grid] == [0.0, 1.0, 0.0, 1.0]
    assert sum(row.answer.outcome is Outcome.HIT for row in grid) >= 3
    facts = proof.summary.facts
    assert set(IDENTITY) < set(facts)
    assert facts["asked"].startswith("6 prompts, ")
    assert (facts["command"], facts["rope"], facts["seed"]) == ("ropewalk x", "as shipped", "0")
    assert proof.summary.claimed_length == 8192


def test_the_same_call_asks_nothing_again_and_more_trials_only_what_is_new(proof: Proof) -> None:
    settings = replace(SHORT, out=proof.folder)
    again, new = asked_by(settings)
    assert (new, again.rows) == ([], proof.rows)
    grown, new = asked_by(replace(settings, trials=2))
    assert sorted(row.cell for row in new) == [
        Cell(length, depth, 1) for length in (150, 200) for depth in (0.0, 1.0)
    ]
    assert set(proof.rows) < set(grown.rows)


def test_another_seed_or_schedule_does_not_go_into_the_same_folder(proof: Proof) -> None:
    with pytest.raises(StoreError, match="seed was 0 and is 1"):
        prove(replace(SHORT, out=proof.folder, seed=1))
    with pytest.raises(StoreError, match="schedule was"):
        prove(replace(SHORT, out=proof.folder, rope="linear:8"))


def test_another_schedule_asks_the_same_prompts_and_changes_what_the_model_says(
    proof: Proof, tmp_path: Path
) -> None:
    settings = replace(SHORT, lengths=(150,), depths=(0.0,), controls=0, out=tmp_path)
    (other,) = prove(replace(settings, rope="linear:8")).rows
    (shipped,) = (row for row in proof.rows if row.cell == other.cell)
    assert (other.key, other.value) == (shipped.key, shipped.value)
    assert other.answer.log_probability is not None
    assert shipped.answer.log_probability is not None
    assert other.answer.log_probability < shipped.answer.log_probability - 0.1


def test_lengths_that_hold_no_question_are_refused_with_the_shortest(tmp_path: Path) -> None:
    with pytest.raises(LengthError, match=r"40 tokens cannot hold.*the shortest is \d\d"):
        prove(replace(SHORT, lengths=(40, 200), out=tmp_path))


CHEAP: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"distractors": -1}, UsageError, "-1 distractors"),
    ({"answer_tokens": 0}, UsageError, "0 answer tokens"),
    ({"controls": 3, "trials": 2}, LengthError, "3 control trials"),
    ({"haystack": Path("no/such/text")}, UsageError, "no/such/text cannot be read"),
    ({"rope": "sideways:2"}, UsageError, "sideways"),
    ({"depths": (1.5,)}, LengthError, "150 %"),
    ({"model": "no-such-model"}, UsageError, "no-such-model"),
    ({"out": Path("/dev/null/run")}, UsageError, "/dev/null is a file"),
]


@pytest.mark.parametrize(("changes", "kind", "sentence"), CHEAP)
def test_what_can_be_seen_at_once_is_refused_before_a_model_is_loaded(
    changes: dict[str, object],
    kind: type[Exception],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("ropewalk.proof.local.load", never)
    with pytest.raises(kind, match=sentence):
        prove(replace(SHORT, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claimed", "lengths"),
    [
        (512, (512, 768)),
        (1024, (1024, 1536)),
        (8192, (1024, 2048, 4096, 8192, 12288)),
        (3000, (1024, 2048, 3000, 4500)),
    ],
)
def test_lengths_double_up_to_the_claim_and_go_half_as_far_again(
    claimed: int, lengths: tuple[int, ...]
) -> None:
    assert default_lengths(claimed) == lengths
    # A table has no rows beyond it.
    assert default_lengths(claimed, beyond=False) == lengths[:-1]


def test_without_a_claim_lengths_must_be_named() -> None:
    with pytest.raises(LengthError, match="claims no length"):
        default_lengths(None)


@pytest.mark.parametrize(("trials", "certain"), [(DEFAULT_TRIALS, 64), (DEFAULT_TRIALS - 1, None)])
def test_as_many_trials_as_by_default_make_a_faultless_length_certain(
    trials: int, certain: int | None
) -> None:
    """Wilson's lower end is n / (n + 1.96^2) for n of n: 0.867 for 25, 0.839 for 20."""
    rows = [
        Row(cell, 64, depth, "k", "v", Answer(Outcome.HIT, 0.0, "v", 1.0), f"{cell}")
        for depth in DEFAULT_DEPTHS
        for cell in (Cell(64, depth, trial) for trial in range(trials))
    ]
    summary = summarise(
        rows,
        lengths=(64,),
        depths=DEFAULT_DEPTHS,
        trials=trials,
        threshold=SHORT.threshold,
        claimed_length=64,
        claimed_source="",
        trained_length=64,
        facts={},
    )
    assert summary.effective.certain == certain


def start(folder: Path, trials: int) -> Started:
    grid = f"--lengths 150 --depths 0,100 --trials {trials} --sharing none"
    command = f"prove tiny {grid} --out".split()
    return Started([*command, str(folder), "--json"], Path.cwd(), os.environ)


def kept(folder: Path) -> list[str]:
    try:
        with Store.read(folder) as store:
            return [row.prompt_hash for row in store.rows()]
    except StoreError:
        return []


def wait_for(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_a_command_killed_interrupted_and_rivalled_goes_on_and_loses_nothing(
    tmp_path: Path,
) -> None:
    folder, many, few = tmp_path / "run", 4000, 2
    first = start(folder, many)
    wait_for(lambda: len(kept(folder)) >= 2)
    rival = start(folder, many)
    out, err = rival.communicate(timeout=240)
    assert (rival.returncode, out) == (1, "")
    assert err.strip().startswith(f"ropewalk: another run (process {first.pid}) is writing to")
    first.kill()
    first.communicate(timeout=60)
    before = kept(folder)

    second = start(folder, many)
    # More than the last command's plan has, so that some of it is of other trials.
    wait_for(lambda: len(kept(folder)) > max(len(before), 2 * few + 2))
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=240)
    assert second.returncode == 130
    assert "Traceback" not in err
    interrupted = kept(folder)
    assert f"interrupted: {len(interrupted)} of 8002 answers are kept; the same command goes" in err
    assert set(before) < set(interrupted)

    last = start(folder, few)
    out, err = last.communicate(timeout=240)
    assert (last.returncode, "Traceback" in err) == (0, False)
    after = kept(folder)
    assert len(after) == len(set(after))
    assert set(interrupted) <= set(after)
    # Of what is kept, the result is that of the plan: four fields of each trial, two controls.
    assert len(json.loads(out)["rows"]) == 2 * few + 2 < len(after)
