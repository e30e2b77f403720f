"""The commands that the README and the demo name run one after another in one directory."""

import os
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks.commands import LONG, SHORT, Ran, in_order, lines, next_to_try, prepare, told
from ropewalk.cli.main import app
from ropewalk.proof.plan import parse_lengths
from tests.processes import ran

ROOT = Path(__file__).parent.parent
LEFT_OUT = {
    "ropewalk prove openai:NAME --base-url URL": "needs a server, which its own tests start",
    "ropewalk window URL": "needs a server, which its own tests start",
    "ropewalk compare": "trains for minutes; its own tests run it small",
    "ropewalk extend smollm2 --to 16384 --lengths 16000": "benchmarks/extend.py runs it",
}


def forked(command: str, folder: Path) -> Ran:
    begun = time.perf_counter()
    done = ran(shlex.split(command), folder, os.environ)
    return Ran(command, done.returncode, time.perf_counter() - begun, done.stdout, done.stderr)


FEW = """
prove tiny --lengths 128,256 --trials 1
prove tiny --lengths 128,200,256 --trials 1
prove tiny --lengths 128,256 --trials 1 --rope yarn:2 --out scaled
prove tiny --lengths 128,256 --trials 1
loss tiny --length 256 --window 128 --stride 64
table tiny near the
"""


@pytest.mark.heavy
def test_each_ends_well_and_a_proof_has_the_table_of_a_fresh_directory(tmp_path: Path) -> None:
    prepare(tmp_path)
    typed, wrong = in_order(lines(SHORT), tmp_path, forked)
    assert not wrong, "\n".join(wrong)
    assert sum(told(each.command) for each in typed) > 5


def test_a_few_in_one_directory_change_no_table_of_a_proof(tmp_path: Path) -> None:
    typed, wrong = in_order(lines(FEW), tmp_path, forked)
    assert not wrong, "\n".join(wrong)
    assert sum(told(each.command) for each in typed) == 4


def test_every_command_of_the_readme_is_run_or_left_out_with_a_reason() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(ropewalk [^`.]+)`", readme)) | set(
        re.findall(r"^\$ (ropewalk .+)$", readme, re.MULTILINE)
    )
    run = {re.match(r"(prove diff|table \S+ \w+|explain \w+|\w+)", c)[1] for c in lines(SHORT)}  # type: ignore[index]
    kinds = {kind.replace("tiny", "MODEL").replace("smollm2", "MODEL") for kind in run}
    exact = {f"ropewalk {command}" for command in [*lines(SHORT), *lines(LONG)]}
    for command in named - exact - LEFT_OUT.keys():
        kind = command.removeprefix("ropewalk ")
        if kind.startswith("--") or kind == "table MODEL ...":
            continue
        assert any(kind == each or kind.startswith(f"{each} ") for each in kinds | {"demo"}), (
            command
        )


def test_what_the_demo_says_to_try_next_is_understood_and_in_the_long_list() -> None:
    suggested = next_to_try()
    assert len(suggested) == 3
    group: Any = typer.main.get_command(app)
    for command in suggested:
        name, *rest = shlex.split(command)
        # Raises for an option or a value that the command does not take.
        group.commands[name].make_context(name, rest)
        for value in re.findall(r"--lengths (\S+)", command):
            assert max(parse_lengths(value)) > 8192, "what SmolLM2 claims is to be left behind"
