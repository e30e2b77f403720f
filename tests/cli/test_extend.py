"""`extend` as a user runs it: options for engines, a new folder, or one sentence why not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.dialects.vllm import read_overrides
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.schedules import Yarn
from ropewalk.rope.spec import RotarySpec
from tests.configurations import source

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(tmp_path: Path, llama_config: dict[str, Any]) -> Callable[..., Path]:
    """config(**changes): a folder with a configuration alone."""

    def make(**changes: Any) -> Path:
        made = tmp_path / "model"
        made.mkdir()
        (made / "config.json").write_text(json.dumps(llama_config | changes))
        return made

    return make


def refused(done: subprocess.CompletedProcess[str], told: str, code: int = 2) -> None:
    assert done.returncode == code, done.stderr
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_schedule_is_shown_with_every_engines_options(config: Any, here: Run) -> None:
    folder = config()
    done = here("extend", str(folder / "config.json"), "--to", "16k", "--method", "yarn", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["trained"], told["target"], told["method"]) == (4096, 16384, "yarn")
    lines = {each["engine"]: each for each in told["options"]}
    assert "--yarn-orig-ctx 4096" in lines["llama.cpp"]["line"]
    assert lines["vLLM"]["checked"].startswith("rules as of vLLM 0.32")
    served = read_overrides(lines["vLLM"]["line"], source(load_json(folder / "config.json")))
    (_, rotary), *_ = served.rotary_groups()
    assert isinstance(rotary, RotarySpec)
    assert rotary.scaling == Yarn(4.0, 4096)
    assert frequencies(served, 16384).fingerprint() == told["schedule"][0]["fingerprint"]


@pytest.mark.parametrize(
    ("changes", "options", "told"),
    [
        (
            {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
            ["--to", "16k"],
            "scaled already: linear with a factor of 2",
        ),
        ({}, ["--to", "4096"], "--to 4096 is no longer than the 4096 tokens"),
        ({}, ["--to", "long"], "--to 'long' is not understood"),
        ({}, ["--to", "8k,16k"], "--to '8k,16k' is not understood: write one length"),
        ({}, ["--to", "16k", "--method", "rope"], "'rope' is not known; choose one of"),
        ({}, ["--to", "16k", "--minutes", "0"], "--minutes 0 is impossible"),
        ({}, ["--to", "16k", "--method", "yarn", "--out", "x"], "a configuration without weights"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    config: Any, here: Run, changes: dict[str, Any], options: list[str], told: str
) -> None:
    refused(here("extend", str(config(**changes) / "config.json"), *options), told)


def test_a_model_with_learned_positions_is_refused_with_the_reason(
    here: Run, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_positions": 1024}))
    refused(here("extend", str(path), "--to", "2k"), "a learned table has only 1024 rows")


@pytest.mark.model
def test_a_checkpoint_is_written_and_measured_by_one_command(
    tiny_model: Path, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "longer"
    done = run("extend", str(tiny_model), "--to", "8k", "--method", "ntk", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "loaded back by transformers" in " ".join(done.stdout.split())
    spec = read_config(load_json(out / "config.json"))
    assert (spec.trained.tokens, spec.claimed.tokens) == (4096, 8192)
    assert "ropewalk extend" in (out / "README.md").read_text()
    again = run("extend", str(out), "--to", "16k", "--method", "yarn")
    refused(again, "stretched already, by its base of")
