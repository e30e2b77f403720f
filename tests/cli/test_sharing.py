"""Proofs whose prompts share text, as a user runs them: what is read, said, kept and continued."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import StoreError
from ropewalk.proof.ask import Asking
from ropewalk.proof.calibration import judge
from ropewalk.proof.cells import Row, Sharing
from ropewalk.proof.progress import RunResult
from ropewalk.proof.store import Store
from tests.cli.conftest import Prove, environment
from tests.processes import Started

GRID = ("--lengths", "300,700", "--depths", "3", "--trials", "2")


def answers(rows: list[Row]) -> dict[Any, tuple[Any, float]]:
    """By cell, what was said and how likely the value was."""
    return {row.cell: (row.answer.outcome, row.answer.log_probability or 0.0) for row in rows}


def test_a_haystack_is_read_once_for_all_its_branches_and_the_map_is_printed(
    prove: Prove, tiny_model: Path
) -> None:
    done = prove(tiny_model, *GRID, "--sharing", "branches", "--calibrate", "off")
    rows = done.rows()
    # Two trials of six fields, and the two controls of the first.
    assert len(rows) == 14
    assert {row.sharing for row in rows} == {Sharing.BRANCHES}
    read, whole = sum(row.tokens_read for row in rows), sum(row.actual_length for row in rows)
    # A haystack of 700 tokens a trial, one of 300 where gaps were too many, and what is asked.
    assert 2 * 500 < read < 2 * 1000 + 14 * 130 < whole
    assert done.out.splitlines()[-1].startswith("report: ")
    assert "over documents" in done.out
    assert "tokens to read" in done.err


def test_prefix_sharing_gives_every_prompt_the_answer_it_gets_alone(
    prove: Prove, tiny_model: Path
) -> None:
    alone = prove(tiny_model, *GRID, "--sharing", "none", name="alone").rows()
    shared = prove(tiny_model, *GRID, "--sharing", "prefix", name="shared").rows()
    one, other = answers(alone), answers(shared)
    assert one.keys() == other.keys()
    for cell, (outcome, likelihood) in one.items():
        assert other[cell][0] is outcome
        assert other[cell][1] == pytest.approx(likelihood, abs=1e-3)
    assert sum(row.tokens_read for row in shared) < 0.8 * sum(row.tokens_read for row in alone)


def test_a_dry_run_says_what_would_be_spent_and_keeps_nothing(
    prove: Prove, tiny_model: Path
) -> None:
    done = prove(tiny_model, *GRID, "--sharing", "branches", "--dry-run", "--price", "1000000")
    said = " ".join(done.err.split())
    found = [word.replace(",", "") for word in said.split() if word[0].isdigit()]
    assert "14 prompts" in said
    assert "(branches: " in said
    assert "key-value cache: " in said
    assert found
    # At a million for a million tokens the price is the number of tokens.
    price = said.partition("price: ")[2].split(";")[0].replace(",", "")
    asked = said.partition("14 prompts, ")[2].split(" ")[0].replace(",", "")
    calibrating = said.partition(", and ")[2].split(" ")[0].replace(",", "") or "0"
    assert float(price) == float(asked) + float(calibrating)
    assert not done.folder.exists()
    assert done.out == ""


def test_a_short_calibration_asks_cells_both_ways_and_says_what_came_of_it(
    prove: Prove, tiny_model: Path
) -> None:
    done = prove(tiny_model, *GRID, "--sharing", "branches", "--calibrate", "short")
    rows = done.rows()
    by_way = {way: [row for row in rows if row.sharing is way] for way in Sharing}
    assert 6 <= len(by_way[Sharing.NONE]) <= 12
    assert {row.cell.length for row in by_way[Sharing.NONE]} >= {700}
    assert {row.cell for row in by_way[Sharing.NONE]} <= {r.cell for r in by_way[Sharing.BRANCHES]}
    kept = done.facts()["calibration"]
    assert re.match(r"Calibration: \d+ cells at (300 and )?700 tokens asked both ways", kept)
    assert kept in done.err
    assert "asked both ways" in " ".join(done.out.split())


def test_without_a_word_needles_are_branches_and_the_run_says_so(
    prove: Prove, tiny_model: Path
) -> None:
    done = prove(tiny_model, "--lengths", "300,700", "--depths", "0,100")
    assert "branches: the haystack of a trial is read once" in done.err
    facts = done.facts()
    assert (facts["sharing"], facts["trials"]) == ("branches", "3")
    # Answers by prompts of their own would read more than branches save, or less: it is said.
    assert facts["calibration"].startswith(("Calibration: ", "none, it would read more"))
    assert "kept in " in done.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--distractors", "1"), "distractors stand at places of their own"),
        (("--task", "order"), "only the task single hides one needle"),
    ],
)
def test_prompts_that_cannot_be_branches_share_beginnings_and_that_is_said(
    options: tuple[str, ...], why: str, prove: Prove, tiny_model: Path
) -> None:
    grid = ("--lengths", "600,800", "--depths", "3")
    done = prove(tiny_model, *grid, *options, "--trials", "1")
    (line,) = (line for line in done.err.splitlines() if line.startswith("prefix sharing: "))
    assert why in line
    assert done.facts()["sharing"] == "prefix"


def test_a_model_without_masks_of_its_own_shares_beginnings_and_that_is_said(
    prove: Prove, tiny_model: Path, tmp_path: Path
) -> None:
    import torch
    from transformers import MptConfig, MptForCausalLM

    folder = tmp_path / "alibi"
    torch.manual_seed(0)
    size: dict[str, Any] = {
        "vocab_size": 800,
        "d_model": 32,
        "n_heads": 2,
        "n_layers": 1,
        "max_seq_len": 1024,
    }
    MptForCausalLM(MptConfig(**size)).save_pretrained(folder)
    for file in tiny_model.glob("tokenizer*"):
        (folder / file.name).symlink_to(file)
    done = prove(folder, *GRID)
    (line,) = (line for line in done.err.splitlines() if line.startswith("prefix sharing: "))
    assert "MptForCausalLM does not take positions and a mask of its own" in line
    assert done.facts()["sharing"] == "prefix"


def test_a_real_difference_falls_back_to_shared_beginnings_and_stays_there(
    prove: Prove, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ropewalk.proof.calibration.judge", lambda *given: replace(judge(*given), real=True)
    )
    grid = (*GRID, "--sharing", "branches", "--calibrate", "short")
    done = prove(tiny_model, *grid)
    assert done.facts()["fallback"].startswith("from branches, which")
    prefix = [row for row in done.rows() if row.sharing is Sharing.PREFIX]
    assert len(prefix) == 14
    assert "all depths" in done.out
    monkeypatch.undo()
    again = prove(tiny_model, *grid)
    assert again.rows() == done.rows()


def test_a_calibration_that_takes_half_of_the_time_is_given_up_and_the_map_is_drawn(
    prove: Prove, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def slow(*arguments: Any) -> tuple[None, RunResult]:
        asking: Asking = arguments[4]
        assert asking.deadline is not None
        given.append(asking.deadline - time.monotonic())
        return None, RunResult(0, 14, 0, interrupted=False, out_of_time=True)

    monkeypatch.setattr("ropewalk.proof.prove.ask_both_ways", slow)
    done = prove(
        tiny_model, *GRID, "--sharing", "branches", "--calibrate", "short", "--minutes", "4"
    )
    assert 90 < given[0] < 121
    assert "not finished in half of the time" in done.facts()["calibration"]
    assert len(done.rows()) == 14
    assert "all depths" in done.out


def changed(model: Path, folder: Path, **values: object) -> Path:
    """A copy of a model's folder with another configuration."""
    folder.mkdir()
    for file in model.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file)
    config = json.loads((model / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))
    return folder


def test_a_schedule_that_moves_with_the_length_is_asked_prompt_by_prompt_and_that_is_said(
    prove: Prove, tiny_model: Path, tmp_path: Path
) -> None:
    short = changed(tiny_model, tmp_path / "short", max_position_embeddings=512)
    done = prove(short, *GRID, "--sharing", "branches", "--rope", "dynamic:2")
    reason = "the schedule (dynamic) changes with the length of the prompt"
    assert f"nothing is shared between prompts: {reason}" in done.err
    assert done.facts()["sharing"] == "none"
    assert reason in done.facts()["not shared"]
    assert {row.sharing for row in done.rows()} == {Sharing.NONE}


def test_a_recurrent_model_is_asked_prompt_by_prompt_and_that_is_said(
    prove: Prove, tiny_model: Path, tmp_path: Path
) -> None:
    import torch
    from transformers import MambaConfig, MambaForCausalLM

    folder = tmp_path / "mamba"
    torch.manual_seed(0)
    size: dict[str, Any] = {
        "vocab_size": 800,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "state_size": 4,
    }
    MambaForCausalLM(MambaConfig(**size)).save_pretrained(folder)
    for file in tiny_model.glob("tokenizer*"):
        (folder / file.name).symlink_to(file)
    done = prove(folder, *GRID, "--sharing", "branches")
    assert "nothing is shared between prompts: " in done.err
    assert done.facts()["sharing"] == "none"
    assert len(done.rows()) == 14


def table(folder: Path) -> list[Row]:
    """Kept rows without what depends on where a run was cut off."""
    try:
        with Store.read(folder) as store:
            rows = store.rows()
    except StoreError:
        return []
    return [
        replace(
            row,
            tokens_read=0,
            answer=replace(
                row.answer,
                seconds=0.0,
                log_probability=round(row.answer.log_probability or 0.0, 3),
            ),
        )
        for row in rows
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_a_run_of_branches_that_is_killed_goes_on_to_the_same_table(
    prove: Prove, tiny_model: Path, tmp_path: Path
) -> None:
    grid = "--lengths 200,400 --depths 2 --trials 4 --sharing branches --calibrate short".split()
    whole = prove(tiny_model, *grid, name="whole")
    cut = tmp_path / "cut"
    for least in (3, 10):
        words = ["prove", str(tiny_model), *grid, "--out", str(cut)]
        process = Started(words, tmp_path, environment(tmp_path / "cache"))
        give_up = time.monotonic() + 240
        while len(table(cut)) < least and process.poll() is None:
            assert time.monotonic() < give_up
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    before = table(cut)
    assert 10 <= len(before) < len(table(whole.folder))
    prove(tiny_model, *grid, name="cut")
    after = table(cut)
    assert after == table(whole.folder)
    assert all(row in after for row in before)
