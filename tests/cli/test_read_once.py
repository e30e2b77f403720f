"""A command reads each file once and finds the model's family once."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects import values
from ropewalk.dialects.gguf import header
from ropewalk.dialects.hf import reader
from ropewalk.extension import methods

Run = Callable[..., Any]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was parsed, and how often a family was found ("family")."""
    seen: Counter[str] = Counter()

    def counting(module: Any, name: str, called: Callable[..., str]) -> None:
        before = getattr(module, name)

        def count(*given: Any, **named: Any) -> Any:
            seen[called(*given)] += 1
            return before(*given, **named)

        monkeypatch.setattr(module, name, count)

    counting(values, "_parse", lambda _, path: Path(path).name)
    counting(reader, "find_family", lambda *_: "family")
    counting(header._Parser, "header", lambda parser: Path(parser.path).name)
    return seen


@pytest.fixture
def folder(tmp_path: Path, llama_config: dict[str, Any]) -> Path:
    """A model's configuration, and that of its tokenizer."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(llama_config))
    (made / "tokenizer_config.json").write_text("{}")
    return made


@pytest.mark.parametrize(
    "command",
    [
        ["audit"],
        ["audit", "--engines"],
        *(["convert", "--to", to] for to in ("hf4", "hf5", "vllm", "llamacpp")),
        *(["convert", "--to", to, "--rope", "yarn:2"] for to in ("hf4", "hf5", "vllm")),
        *(["extend", "--to", "16k", "--method", method] for method in ("yarn", "base")),
        ["extend", "--to", "16k", "--method", "yarn", "--for", "vllm"],
    ],
    ids=" ".join,
)
def test_a_configuration_is_read_once_and_its_family_found_once(
    here: Run, folder: Path, counted: Counter[str], command: list[str]
) -> None:
    done = here(*command, folder)
    assert done.returncode == 0, done.stderr
    assert counted == {"config.json": 1, "tokenizer_config.json": 1, "family": 1}


@pytest.mark.parametrize(
    "command", [["audit"], ["audit", "--engines"], ["convert", "--to", "llamacpp"]], ids=" ".join
)
def test_a_gguf_header_is_read_once(
    here: Run, smollm2_gguf: Path, counted: Counter[str], command: list[str]
) -> None:
    done = here(*command, smollm2_gguf)
    assert done.returncode == 0, done.stderr
    assert counted == {smollm2_gguf.name: 1}


def test_extend_by_measurement_reads_a_configuration_once(here: Run, counted: Counter[str]) -> None:
    done = here(
        "extend", "tiny", "--to", "512", "--method", "auto", "--trials", "1", "--depths", "0.5",
        "--device", "cpu",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (counted["config.json"], counted["family"]) == (1, 1)


def test_of_all_that_extend_measures_each_schedule_is_built_once(
    here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: Counter[Any] = Counter()
    before = methods.extended

    def counting(spec: Any, target: int, method: Any, headroom: float = 1.0) -> Any:
        built[method.name, headroom] += 1
        return before(spec, target, method, headroom)

    monkeypatch.setattr(methods, "extended", counting)
    done = here(
        "extend", "tiny", "--to", "512", "--method", "auto", "--trials", "1", "--depths", "0.5",
        "--device", "cpu",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    both = itertools.product(methods.NAMES, methods.HEADROOMS)
    assert built == dict.fromkeys(both, 1)
