"""The command line as a user runs it: real processes, and a model small enough to run in them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ropewalk.cli.main import app, main
from ropewalk.proof.cells import Row
from ropewalk.proof.store import Store
from tests import processes

Run = Callable[..., subprocess.CompletedProcess[str]]

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 800,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}


def environment(cache: Path, **changes: str) -> dict[str, str]:
    """This process's environment without what colours output, and with a cache of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE"}
    }
    quiet = {"HF_HUB_OFFLINE": "1", "ROPEWALK_CACHE": str(cache), "PYTHONWARNINGS": "ignore"}
    return {**kept, **quiet, **changes}


@pytest.fixture(scope="session")
def llama_config() -> dict[str, Any]:
    """The configuration of `tiny_model`, to be changed in copies."""
    return dict(CONFIG)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `python -m ropewalk ARGUMENTS` in `tmp_path` to its end."""

    def start(
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
        timeout: float = 240,
    ) -> subprocess.CompletedProcess[str]:
        words = list(map(str, arguments))
        surroundings = environment(tmp_path / "cache", **(env or {}))
        at_start = ("PYTHON", "LC_", "LANG", "HF_", "OMP_")
        cold = before is not None or any(name.startswith(at_start) for name in env or ())
        if not cold and sys.platform != "win32":
            return processes.ran(words, tmp_path, surroundings, timeout)
        return subprocess.run(
            [sys.executable, "-m", "ropewalk", *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            env=surroundings,
            preexec_fn=before,
            timeout=timeout,
            check=False,
        )

    return start


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """As `run`, but `main` in this process: for the many commands that end before any work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "cache"))

    def start(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["ropewalk", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(arguments, code, out, err)

    return start


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random llama of some ten thousand weights, and a small tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from ropewalk.proof.haystack import GeneratedHaystack

    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sentences = islice(GeneratedHaystack(random.Random(0)).sentences(), 400)
    tokenizer.train_from_iterator(sentences, trainer)
    marks = {"bos_token": "<s>", "eos_token": "<s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {k: v for k, v in CONFIG.items() if k not in {"architectures", "model_type"}}
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@dataclass(frozen=True)
class Done:
    """What a command printed, and the run folder."""

    out: str
    err: str
    folder: Path

    def rows(self) -> list[Row]:
        with Store.read(self.folder) as store:
            return store.rows()

    def facts(self) -> dict[str, str]:
        with Store.read(self.folder) as store:
            return store.facts().said()


Prove = Callable[..., Done]


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prove:
    """Run `ropewalk prove MODEL ...` in this process; `name` is the run folder's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "cache"))

    def start(model: Path, *arguments: str, name: str = "run") -> Done:
        folder = tmp_path / name
        command = ["prove", str(model), *arguments, "--out", str(folder)]
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return Done(result.stdout, result.stderr, folder)

    return start
