"""What a shell is offered, asked in the way in which bash, zsh and fish ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import typer

from ropewalk.cli.compare import ENCODINGS
from ropewalk.cli.completion import KNOWN
from ropewalk.cli.extend import METHODS
from ropewalk.cli.main import app
from ropewalk.cli.options import DTYPES
from ropewalk.cli.prove_options import TASKS
from ropewalk.cli.tune import ATTENTION


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model in it, one in a folder, a GGUF file and what is no model."""
    for folder in ("llama", "models/small", "models/large", "notes"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("llama", "models/small", "models/large"):
        (tmp_path / folder / "config.json").write_text("{}")
    for name in ("q4.gguf", "readme.txt", "config.json", "rows.npy"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(shell: str, line: str) -> str:
    """What the program prints to a shell for a line that ends at the cursor."""
    env = {**os.environ, "_ROPEWALK_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        words = line.split(" ")
        env |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = "import sys, ropewalk.cli.main as m; sys.argv = ['ropewalk']; m.main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    assert done.stderr == ""
    return done.stdout


def offered(line: str) -> list[str]:
    return ask("bash", line).split("\n")[:-1]


def test_commands_are_offered_one_word_at_a_time() -> None:
    words = offered("ropewalk ")
    assert {"audit", "prove", "table", "explain"} <= set(words)
    assert not [word for word in words if " " in word]
    assert offered("ropewalk ex") == ["extend", "explain"]


@pytest.mark.usefixtures("here")
def test_a_model_is_a_known_name_a_folder_a_gguf_file_or_a_configuration() -> None:
    models = ["smollm2", "tiny", "config.json", "llama", "models/", "notes/", "q4.gguf"]
    assert offered("ropewalk audit ") == models
    assert offered("ropewalk prove ") == ["diff", *models]
    assert offered("ropewalk audit t") == ["tiny"]
    # What lies in a folder on the way is offered beside it, so that no blank is put behind it.
    assert offered("ropewalk audit mo") == ["models/", "models/large", "models/small"]
    assert offered("ropewalk audit models/s") == ["models/small"]
    assert "rows.npy" in offered("ropewalk table ")
    assert "near" in offered("ropewalk table ")
    assert offered("ropewalk table near t") == ["tiny"]
    assert offered("ropewalk table tiny compare q") == ["q4.gguf"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ropewalk prove tiny --dtype ", list(DTYPES)),
        ("ropewalk loss tiny --dtype f", ["fp16", "fp32"]),
        ("ropewalk prove tiny --sharing ", ["none", "prefix", "branches"]),
        ("ropewalk prove tiny --calibrate ", ["off", "short", "full"]),
        ("ropewalk prove tiny --suite ", ["quick", "standard", "full"]),
        ("ropewalk prove tiny --task single,cou", ["single,count"]),
        ("ropewalk prove tiny --device c", ["cpu", "cuda"]),
        ("ropewalk extend tiny --method n", ["ntk", "ntk-by-parts"]),
        ("ropewalk convert tiny --to hf", ["hf4", "hf5"]),
        ("ropewalk tune tiny --decay ", ["cosine", "linear", "constant"]),
        ("ropewalk table tiny near --role ", ["input", "output", "positions"]),
        ("ropewalk table near tiny --view r", ["raw"]),
        ("ropewalk prove diff --js", ["--json"]),
        ("ropewalk explain jo", ["join"]),
        ("ropewalk compare --encodings rope,al", ["rope,alibi"]),
    ],
)
def test_an_option_offers_the_words_it_takes(line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_the_words_are_those_that_are_allowed() -> None:
    from ropewalk.comparison.presets import parse_variants
    from ropewalk.extension import settings as extend
    from ropewalk.extension.tune import training_settings as tune
    from ropewalk.models import dtypes, resolve
    from ropewalk.proof.cells import Calibrate, Sharing
    from ropewalk.proof.tasks import SUITES, parse_tasks
    from ropewalk.proof.tasks import TASKS as ASKED

    assert DTYPES == dtypes.DTYPES
    assert list(KNOWN) == sorted(resolve.KNOWN)
    assert set(METHODS) == set(extend.METHODS)
    assert ATTENTION == tune.ATTENTION
    assert parse_tasks(",".join(TASKS)) == (*ASKED, "documents")
    assert len(parse_variants(",".join(ENCODINGS))) == len(ENCODINGS)
    kinds: dict[tuple[str, str], type[StrEnum] | tuple[str, ...]] = {
        ("prove", "sharing"): Sharing,
        ("prove", "calibrate"): Calibrate,
        ("prove", "suite"): tuple(SUITES),
        ("prove", "dtype"): dtypes.DTYPES,
        ("tune", "dtype"): tune.DTYPES,
        ("tune", "positions"): tune.COUNTINGS,
        ("tune", "decay"): tuple(tune.DECAYS),
    }
    group: Any = typer.main.get_command(app)
    for (command, name), allowed in kinds.items():
        (option,) = (p for p in group.commands[command].params if p.name == name)
        assert set(option.metavar.split("|")) == {str(each) for each in allowed}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.usefixtures("here")
def test_every_shell_gets_model_names_and_words(shell: str) -> None:
    assert "tiny" in ask(shell, "ropewalk audit t")
    assert "fp16" in ask(shell, "ropewalk prove tiny --dtype f")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ropewalk", "--show-completion", shell],
        capture_output=True, text=True, check=False,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )  # fmt: skip
    assert done.returncode == 0
    assert f"_ROPEWALK_COMPLETE=complete_{shell}" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_nothing_heavy_is_imported_for_a_completion() -> None:
    code = (
        "import os, sys, ropewalk.cli.main as m\n"
        "try:\n    m.app(prog_name='ropewalk')\nfinally:\n"
        "    heavy = ('torch', 'numpy', 'transformers', 'ropewalk.dialects')\n"
        "    print([n for n in heavy if n in sys.modules])"
    )
    for line in ("ropewalk prove ", "ropewalk prove tiny --task s", "ropewalk compare --preset m"):
        words = line.split(" ")
        env = {
            **os.environ, "_ROPEWALK_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }  # fmt: skip
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
        )
        assert done.stdout.endswith("[]\n")
        # A third of a second on a free machine; this bound holds on a busy one.
        assert time.monotonic() - started < 5
