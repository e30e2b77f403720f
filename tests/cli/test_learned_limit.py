"""A model with a table of positions, at the command line: its end is said, and never passed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

POSITIONS = 512


@pytest.fixture(scope="module")
def learned(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random GPT-2 of 512 positions, and the tokenizer of `tiny_model`."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = tmp_path_factory.mktemp("models") / "learned"
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=800,
        n_positions=POSITIONS,
        n_embd=32,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    for path in tiny_model.glob("tokenizer*"):
        shutil.copy(path, folder)
    return folder


def test_a_text_beyond_the_table_is_one_sentence_with_the_place(here: Run, learned: Path) -> None:
    done = here("trace", learned, "a " * 600)
    assert (done.returncode, done.stdout) == (2, "")
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("ropewalk: the text has ")
    assert "holds 512 at column 512" in sentence
    assert "the learned table has 512 positions and nothing beyond them" in sentence


def test_a_prompt_beyond_the_table_is_never_asked_and_that_is_said(
    here: Run, learned: Path
) -> None:
    arguments = ("--lengths", "256,1024", "--depths", "0%", "--trials", "1", "--controls", "0")
    done = here("prove", learned, *arguments, "--out", "kept")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "1,024 tokens did not fit, and cannot be read." in said
    assert "OVER does not fit" in said
