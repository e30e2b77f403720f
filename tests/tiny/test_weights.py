"""The model that is shipped: it finds what it was told at its trained length, and not beyond."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.findings import audit
from ropewalk.listener import Listener
from ropewalk.models.load import load
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.proof.cells import Cell, Outcome, Sharing
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.prove import prove
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.subjects.local import LocalSubject
from ropewalk.proof.tokens import Tokens
from ropewalk.tiny.recipe import TinyRecipe, config_of

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
TRIALS = 20


@pytest.fixture(scope="module")
def tiny() -> Any:
    return load(resolve("tiny"), device=torch.device("cpu"), dtype=torch.float32)


def _hits(tiny: Any, length: int, depth: float, trials: int) -> int:
    tokens = Tokens(tiny.tokenizer)
    subject, maker = LocalSubject(tiny.model, tokens), PromptMaker(tokens, seed=11)
    answers = [subject.answer(maker(Cell(length, depth, trial))) for trial in range(trials)]
    return sum(answer.outcome is Outcome.HIT for answer in answers)


@pytest.mark.parametrize("depth", DEPTHS)
def test_it_finds_a_pass_key_at_every_depth_of_its_trained_length(tiny: Any, depth: float) -> None:
    assert _hits(tiny, 256, depth, TRIALS) >= 0.95 * TRIALS


def test_far_beyond_its_trained_length_it_does_not(tiny: Any) -> None:
    assert sum(_hits(tiny, 2048, depth, 5) for depth in (0.0, 0.25, 0.5)) <= 3


def test_it_is_small_and_brings_the_log_of_its_training(tiny: Any) -> None:
    folder = resolve("tiny").path
    assert (folder / "model.safetensors").stat().st_size < 6_000_000
    assert 1_000_000 <= sum(w.numel() for w in tiny.model.parameters()) <= 3_000_000
    lines = (folder / "training.jsonl").read_text(encoding="utf-8").splitlines()
    log = [json.loads(line) for line in lines]
    before, after = log[1]["drift"], log[-1]["drift"]
    assert after["within"] > before["within"] + 0.1
    assert after["within"] > after["across"] + 0.1


def test_its_files_state_how_long_it_was_trained_and_an_audit_says_so() -> None:
    found = audit(read_spec(resolve("tiny")))
    assert (found.trained.tokens, found.trained.stated) == (256, True)
    assert found.trained.source == "max_trained_positions"
    assert not [each for each in found.findings if "guess" in each.code]


def test_the_recipe_writes_the_configuration_that_is_shipped() -> None:
    shipped = json.loads((resolve("tiny").path / "config.json").read_text(encoding="utf-8"))
    recipe = json.loads(config_of(TinyRecipe(), 0, 1).to_json_string(use_diff=False))
    # Written by the model as it is saved, or by the library of the day.
    for name in ("architectures", "dtype", "transformers_version"):
        del shipped[name]
    assert {name: recipe.get(name) for name in shipped} == shipped


def test_by_default_it_is_asked_what_it_learned(tmp_path: Path) -> None:
    said: list[str] = []
    proof = prove(
        ProofSettings("tiny", depths=(0.0, 0.5), trials=2, controls=0, out=tmp_path / "run"),
        Listener(note=said.append),
    )
    assert proof.summary.lengths == (256, 512, 1024, 2048)
    assert (proof.summary.trained_length, proof.summary.trained_source) == (
        256,
        "max_trained_positions",
    )
    assert {row.sharing for row in proof.rows} == {Sharing.BRANCHES}
    # At the length it was trained on it finds all, at eight times that nothing.
    assert proof.summary.columns[0].pooled.hits == 4
    assert proof.summary.columns[-1].pooled.hits == 0
    assert said[0].startswith("asked at the lengths that its files name: 256, 512, 1,024 and 2,048")
    assert proof.summary.facts["asked as"].startswith(said[0])
