"""What every command says of itself: usage, groups, example, exit codes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ropewalk.cli.commands import EXAMPLES
from ropewalk.cli.main import app
from ropewalk.errors import EXIT_CODES, RopewalkError, UsageError

from .conftest import Run

GROUPED = 12
"""A command with more options than this has them in groups."""


def named(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every group and every command, with its words; the program itself has none."""
    yield before, group
    for name, command in group.commands.items():
        words = (*before, *name.split())
        if hasattr(command, "commands"):
            yield from named(command, words)
        else:
            yield words, command


COMMANDS = dict(named(typer.main.get_command(app)))
every = pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "ropewalk")


def help_of(words: tuple[str, ...], option: str = "-h", **environment: str) -> str:
    """The help at 80 columns, as it goes into a file."""
    env = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", **environment}
    done = CliRunner().invoke(app, [*words, option], prog_name="ropewalk", env=env)
    assert done.exit_code == 0, done.output
    return done.output


@every
def test_short_and_long_ask_for_the_same_help(words: tuple[str, ...]) -> None:
    assert help_of(words) == help_of(words, "--help")


@every
def test_the_usage_is_what_one_types(words: tuple[str, ...]) -> None:
    usage = " ".join(help_of(words).split("\n\n")[0].split())
    assert usage.startswith(f"Usage: {' '.join(['ropewalk', *words[:1]])}".rstrip())
    assert not re.search(r"\[\[|\]\.\.\.\]|[{}<>]|\bARGS\b", usage)
    command = COMMANDS[words]
    needed = [p for p in command.params if p.required and p.param_type_name == "option"]
    for option in needed:
        assert f" {option.opts[-1]} " in usage
    if needed:
        assert usage.endswith("[OPTIONS]")


@every
def test_help_fits_80_columns_in_ascii_and_without_colour(words: tuple[str, ...]) -> None:
    printed = help_of(words, FORCE_COLOR="1", TERM="xterm-256color")
    assert printed.isascii()
    assert "\x1b" not in printed
    # A word that is shown whole may be wider, like the choices of an option.
    assert not [line for line in printed.splitlines() if len(line) > 80]
    assert "..." not in "".join(re.findall(r"Commands:\n(.*?)\n\n", printed, re.DOTALL))
    assert not re.search(r"<(int|str|float|path|list)|INTEGER|\[x>=", printed)


@every
def test_help_ends_with_an_example_and_the_exit_codes(words: tuple[str, ...]) -> None:
    *_, example, codes, _ = [*help_of(words).split("\n\n"), ""]
    assert example == f"Example:\n  {EXAMPLES[' '.join(words)]}"
    told = " ".join(codes.split())
    assert all(f"{code} {said}" in told for code, said in EXIT_CODES.items())


@every
def test_many_options_stand_in_groups(words: tuple[str, ...]) -> None:
    options = [p for p in COMMANDS[words].params if p.param_type_name == "option"]
    groups = {p.rich_help_panel for p in options}
    assert len(options) <= GROUPED or len(groups) > 1
    printed = help_of(words)
    printed = printed[re.search(r"\n\w[^\n]*:\n", printed).start() :]  # type: ignore[union-attr]
    for title in groups - {None}:
        assert printed.count(f"\n{title}:\n") == 1
    for option in options:
        assert len(re.findall(rf"(?m)^  (-\w, )?{option.opts[-1]}\b(?!-)", printed)) == 1


def test_exit_codes_are_those_of_the_errors() -> None:
    assert {0, RopewalkError.exit_code, UsageError.exit_code, 130} == set(EXIT_CODES)


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("question", COMMANDS[("table",)].commands)
def test_a_question_about_a_table_explains_itself_with_and_without_a_model(
    here: Run, question: str, option: str
) -> None:
    own = here("table", "nowhere", question, option)
    assert own.returncode == 0
    assert own.stdout.startswith(f"Usage: ropewalk table MODEL {question}")
    for words in ((question, option), (question, "nowhere", option), (question, "--json", option)):
        assert here("table", *words).stdout == own.stdout


@pytest.mark.parametrize("question", COMMANDS[("table",)].commands)
def test_a_question_without_a_model_is_told_that_it_needs_one(here: Run, question: str) -> None:
    for words in ((question,), (question, "--json")):
        done = here("table", *words)
        assert done.returncode == 2
        assert f"ropewalk table MODEL {question}" in done.stderr


def test_a_wrong_option_is_answered_with_the_usage_as_it_is_typed(here: Run) -> None:
    done = here("table", "tiny", "near", "--nowhere")
    assert done.returncode == 2
    assert "Usage: ropewalk table MODEL near WORD... [OPTIONS]" in done.stderr
    assert "Try 'ropewalk table MODEL near -h'" in done.stderr


def parsed(line: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The command that a line comes to, with the values of its options; nothing is run."""
    root: Any = typer.main.get_command(app)
    seen: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def keep(came_to: tuple[str, ...], **values: Any) -> None:
        seen.append((came_to, values))

    for words, command in named(root):
        if not hasattr(command, "commands"):
            command.callback = lambda _words=words, **values: keep(_words, **values)
    _, *rest = shlex.split(line)
    root.main(rest, prog_name="ropewalk", standalone_mode=False)
    return seen[0]


@pytest.mark.parametrize("name", EXAMPLES, ids=lambda name: name or "ropewalk")
def test_every_example_is_understood_and_is_of_its_command(name: str) -> None:
    words, _ = parsed(EXAMPLES[name])
    assert " ".join(words).startswith(name)
    assert len(EXAMPLES[name]) <= 78


def test_every_command_has_an_example_and_nothing_else_has() -> None:
    assert set(EXAMPLES) == {" ".join(words) for words in COMMANDS}


QUICK = (
    "audit", "convert", "doctor", "pack", "table", "table near", "table similarity",
    "table health", "table positions", "table clusters", "table compare", "table export",
    "explain order", "trace", "loss", "prove", "show", "extend",
)  # fmt: skip


def test_the_examples_that_take_seconds_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "cache"))
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("The old harbour lies behind the hill. " * 100)
    further = f"{EXAMPLES['prove']}-yarn --rope yarn:2"
    lines = [EXAMPLES[name] for name in QUICK] + [further, EXAMPLES["prove diff"]]
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line)[1:], prog_name="ropewalk")
        assert done.exit_code == 0, f"{line}: {done.output} {done.exception}"
