"""This package's own decoder at the command line: proved like any other model."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A random decoder under RoPE, and the tokenizer of `tiny_model`."""
    import torch

    from ropewalk.decoder import Decoder, DecoderConfig

    torch.manual_seed(0)
    config = DecoderConfig(vocab_size=800, hidden_size=32, num_hidden_layers=1, trained_length=512)
    Decoder(config).save_pretrained(tmp_path / "own")
    for path in tiny_model.glob("tokenizer*"):
        shutil.copy(path, tmp_path / "own")
    return tmp_path / "own"


def test_a_decoder_is_proved_and_asked_for_longer_windows(run: Run, folder: Path) -> None:
    arguments = ("--lengths", "300", "--depths", "0%,100%", "--trials", "1", "--controls", "0")
    done = run("prove", folder, *arguments, "--rope", "yarn:2", "--out", "kept")
    assert done.returncode == 0, done.stderr
    assert "300" in done.stdout
    assert (folder.parent / "kept").is_dir()
