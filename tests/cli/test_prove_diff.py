"""`ropewalk prove diff` as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ropewalk.proof.cells import Answer, Cell, Outcome, Row
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.store import Store

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two run folders that asked the same eight prompts; the second missed all."""
    for name, outcome, rope in (("a", Outcome.HIT, "as shipped"), ("b", Outcome.MISS, "linear:4")):
        with Store.open(tmp_path / name, RunFacts(name="m", rope=rope, schedule=rope)) as store:
            for trial in range(8):
                cell = Cell(512, 0.5, trial)
                answer = Answer(outcome, -1.0 - 0.1 * trial, "x", 0.1)
                store.add(Row(cell, 512, 0.5, "k", "v", answer, f"{name}{trial}"), f"p{trial}")
    return tmp_path / "a", tmp_path / "b"


def test_two_words_reach_the_comparison_and_write_its_page(
    run: Run, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    done = run("prove", "diff", *runs, "--html", tmp_path / "diff.html")
    assert done.returncode == 0, done.stderr
    assert "rope: A as shipped, B linear:4" in done.stdout
    assert "A answers 8 and B 0: A finds more (p = 0.016)" in " ".join(done.stdout.split())
    assert "Two proofs on the same prompts" in (tmp_path / "diff.html").read_text()


def test_json_is_one_document(here: Run, runs: tuple[Path, Path]) -> None:
    done = here("prove", "diff", *runs, "--json")
    assert json.loads(done.stdout)["overall"]["only_a"] == 8


def test_a_folder_without_results_is_one_sentence(here: Run, tmp_path: Path) -> None:
    done = here("prove", "diff", tmp_path, tmp_path / "b")
    assert done.returncode != 0
    assert "holds no results" in done.stderr
    assert "Traceback" not in done.stderr
