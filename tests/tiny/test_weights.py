"""The model that is shipped: it finds what it was told at its trained length, and not beyond."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from ropewalk.models.load import load
from ropewalk.models.resolve import resolve
from ropewalk.prove.cells import Cell, Outcome
from ropewalk.prove.prompt import PromptMaker
from ropewalk.prove.subjects.local import LocalSubject
from ropewalk.prove.tokens import Tokens

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
