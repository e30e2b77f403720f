"""Every option that takes a length in tokens reads the same syntax, and says which it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Run

TUNE = ("tune", "tiny", "--data", "d.txt", "--steps", "1", "--out", "o")
PACK = ("pack", "d.txt", "--tokenizer", "tiny", "--out", "o.parquet")
OPTIONS = (
    (("prove", "tiny"), "--lengths"),
    (("prove", "tiny"), "--answer-tokens"),
    (("extend", "tiny"), "--to"),
    (("extend", "tiny", "--to", "8k"), "--lengths"),
    (TUNE, "--length"),
    (TUNE, "--prove"),
    (PACK, "--length"),
    (("convert", "tiny", "--to", "vllm"), "--length"),
    (("loss", "tiny"), "--length"),
    (("loss", "tiny"), "--window"),
    (("loss", "tiny"), "--stride"),
)


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_a_length_that_is_not_understood_is_refused_with_the_syntax(
    here: Run, command: tuple[str, ...], option: str
) -> None:
    done = here(*command, option, "3x")
    assert done.returncode == 2
    assert "k is 1024 and M is 1024 k" in done.stderr
    assert "'3x'" in done.stderr


@pytest.mark.parametrize("length", ["1k", "1K", "1_024", "1024"])
def test_a_length_is_served_as_it_was_meant_however_it_is_written(
    here: Run, tiny_model: Path, length: str
) -> None:
    done = here("convert", tiny_model, "--to", "vllm", "--length", length)
    assert done.returncode == 0
    assert "--max-model-len 1024" in done.stdout
