"""The same command gives the same table, whatever else was asked in its directory before.

Real commands on the embedded model; each is compared with what a fresh directory gives for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from ropewalk.cli.main import app
from ropewalk.errors import StoreError
from ropewalk.proof.calibration import Calibration, CalibrationPair, judge
from ropewalk.proof.cells import Cell, Prompt
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.tokens import Tokens

PASSING = ("asked", "date", "command", "versions")
"""Facts that say how a table was come by, not what is in it."""
Table = tuple[dict[str, Any], list[str]]


@pytest.fixture(scope="module", autouse=True)
def prompts_are_laid_out_once() -> Iterator[None]:
    """Laying out a prompt takes longer than this model does to answer it.

    What is kept goes by everything that a maker was told, and so is what it would lay out again.
    """
    kept: dict[tuple[str, Cell], Prompt] = {}

    def told(maker: object) -> str:
        """A maker's class, and its settings down to the tokenizer."""
        names = [each.name for each in fields(maker) if each.compare]  # type: ignore[arg-type]
        values = [getattr(maker, name) for name in names]
        parts = [
            told(each)
            if isinstance(each, PromptMaker)
            else each.fingerprint()
            if isinstance(each, Tokens)
            else repr(each)
            for each in values
        ]
        return f"{type(maker).__name__}({', '.join(parts)})"

    def keeping(name: str, plain: Callable[[Any, Cell], Prompt]) -> Callable[[Any, Cell], Prompt]:
        def laid(maker: Any, cell: Cell) -> Prompt:
            key = f"{name} of {told(maker)}", cell
            if key not in kept:
                kept[key] = plain(maker, cell)
            return kept[key]

        return laid

    with pytest.MonkeyPatch.context() as patch:
        for kind, name in (
            (PromptMaker, "__call__"),
            (GappedMaker, "__call__"),
            (GappedMaker, "independent"),
        ):
            patch.setattr(kind, name, keeping(name, getattr(kind, name)))
        patch.setattr(Tokens, "fingerprint", lru_cache(Tokens.fingerprint))
        yield


@pytest.fixture
def some_fall_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of all calibrations find a difference, by how many pairs were answered."""

    def harsher(pairs: Sequence[CalibrationPair], seed: int = 0, not_laid: str = "") -> Calibration:
        found = judge(pairs, seed, not_laid)
        return replace(found, real=found.pairs % 8 >= 4)

    monkeypatch.setattr("ropewalk.proof.calibration.judge", harsher)


@dataclass
class Directory:
    """Where commands are given one after the other; `fresh` gives each in one of its own."""

    path: Path
    monkeypatch: pytest.MonkeyPatch
    new: Callable[[], Path]
    known: dict[str, Table] = field(default_factory=dict)

    def prove(self, command: str, *, where: Path | None = None) -> Table:
        """The JSON document of a proof of tiny, and what its folder shows afterwards.

        Raises StoreError where the command is refused, which must be because its folder is
        another run's.
        """
        self.monkeypatch.chdir(where or self.path)
        words = command.split()
        # Its files ask for pass keys, each prompt its own text; here documents are to be shared.
        for option, value in (("--task", "single"), ("--sharing", "branches")):
            words += [] if option in words else [option, value]
        done = CliRunner().invoke(app, ["prove", "tiny", *words, "--json"])
        if isinstance(done.exception, StoreError):
            assert "holds the answers of another run" in str(done.exception)
            raise done.exception
        assert done.exit_code == 0, (command, done.output, done.exception)
        (folder,) = re.findall(r"^report: (.*)/report\.html$", done.stderr, re.MULTILINE)
        shown = CliRunner().invoke(app, ["show", folder], catch_exceptions=False)
        return lasting_values(json.loads(done.stdout)), lasting_lines(shown.stdout)

    def fresh(self, command: str) -> Table:
        """The same in a directory where nothing was asked before."""
        if command not in self.known:
            self.known[command] = self.prove(command, where=self.new())
        return self.known[command]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Directory:
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "cache"))
    numbers = iter(range(1000))

    def new() -> Path:
        made = tmp_path / f"fresh{next(numbers)}"
        made.mkdir()
        return made

    (tmp_path / "here").mkdir()
    return Directory(tmp_path / "here", monkeypatch, new)


def lasting_values(value: Any, name: str = "") -> Any:
    """A JSON document without what tells how it was come by: pace, and the last digits."""
    if isinstance(value, dict):
        passing = {"seconds", "tokens_read", *(PASSING if name == "facts" else ())}
        return {key: lasting_values(each, key) for key, each in value.items() if key not in passing}
    if isinstance(value, list):
        return [lasting_values(each, name) for each in value]
    return round(value, 3) if isinstance(value, float) else value


def lasting_lines(shown: str) -> list[str]:
    """The lines of a shown table, but for those that tell how it was come by."""
    return [line for line in shown.splitlines() if not line.startswith(tuple(PASSING))]


def same(found: Table, fresh: Table) -> bool:
    """Whether both say the same; an assert of it would explain a difference for minutes."""
    return found == fresh


def map_of(found: Table) -> dict[int, list[tuple[int, int]]]:
    """By length, hits and judged answers of every field of the map."""
    by_length: dict[int, list[tuple[int, int]]] = {}
    for cell in found[0]["summary"]["cells"]:
        share = cell["share"]
        by_length.setdefault(cell["length"], []).append((share["hits"], share["judged"]))
    return by_length


def test_a_second_grid_does_not_mix_with_the_first(directory: Directory) -> None:
    grid = "--depths 3 --trials 2 --calibrate short"
    many, few = f"--lengths 128,256,512 {grid}", f"--lengths 128,256 {grid}"
    first, second, third = (directory.prove(command) for command in (many, few, many))
    assert {n: len(each) for n, each in map_of(first).items()} == {128: 3, 256: 3, 512: 3}
    assert {judged for each in map_of(second).values() for _, judged in each} == {2}
    assert same(second, directory.fresh(few))
    assert same(first, directory.fresh(many))
    assert same(third, first)
    assert third[0]["summary"]["facts"]["sharing"] == "branches"


def test_a_smaller_grid_that_is_not_calibrated_counts_its_own_answers(directory: Directory) -> None:
    """After a larger one, as `ropewalk demo` leaves it."""
    directory.prove("--lengths 128,256,384 --depths 3 --trials 2 --calibrate short")
    command = "--lengths 128,256 --depths 3 --trials 2 --calibrate off"
    found = directory.prove(command)
    assert len(found[0]["rows"]) == 2 * 3 * 2 + 2
    assert "none, as was asked for" in found[0]["summary"]["facts"]["calibration"]
    assert same(found, directory.fresh(command))


@pytest.mark.usefixtures("some_fall_back")
def test_a_fallback_is_the_run_s_own_and_says_what_the_answers_share(directory: Directory) -> None:
    grid = "--lengths 160,320 --depths 2 --sharing branches"
    found = {}
    for trials in (1, 2, 3):
        for calibrate in ("full", "off"):
            command = f"{grid} --trials {trials} --calibrate {calibrate} --out run"
            table = directory.prove(command)
            assert same(table, directory.fresh(command)), command
            found[trials, calibrate] = table[0]
    ways = {trials: found[trials, "full"]["summary"]["facts"]["sharing"] for trials in (1, 2, 3)}
    assert set(ways.values()) == {"branches", "prefix"}
    for (trials, calibrate), document in found.items():
        facts = document["summary"]["facts"]
        shared = {row["sharing"] for row in document["rows"]}
        assert shared == {facts["sharing"]}
        assert ("fallback" in facts) == (facts["sharing"] == "prefix")
        assert calibrate == "full" or facts["sharing"] == "branches", trials


CHOICES: dict[str, tuple[str, ...]] = {
    "--lengths": ("128,160", "128,160,224", "128", "160,224"),
    "--depths": ("2", "0%,50%", "50%"),
    "--trials": ("1", "2", "3"),
    "--controls": ("0", "1"),
    "--threshold": ("0.85", "absolute:0.3"),
    "--calibrate": ("off", "full"),
    "--most-trials": ("", "4"),
    "--seed": ("0", "1"),
    "--sharing": ("branches", "prefix", "none"),
    "--out": ("", "run"),
}
"""What commands are drawn from."""


def neighbours(random: Random) -> list[str]:
    """Four commands that are easily mixed up: one, and others apart from it in one thing or two."""
    base = {name: random.choice(values) for name, values in CHOICES.items()}
    base["--sharing"] = random.choice(("branches", "branches", "prefix"))
    several = [base]
    for _ in range(3):
        changed = random.sample(sorted(CHOICES), random.choice((1, 1, 2)))
        several.append(base | {name: random.choice(CHOICES[name]) for name in changed})
    return [written(each) for each in several]


def written(options: dict[str, str]) -> str:
    """A command of these options, without those that do not go together."""
    given = {name: value for name, value in options.items() if value}
    if given["--sharing"] != "branches":
        given.pop("--calibrate")
    if given["--trials"] == "3" or "--most-trials" not in given:
        given.pop("--most-trials", None)
    until = ["--until-certain"] if "--most-trials" in given else []
    return " ".join([*(f"{name} {value}" for name, value in given.items()), *until])


@pytest.mark.usefixtures("some_fall_back")
@pytest.mark.parametrize("seed", [0, 3])
def test_ten_commands_in_one_directory_give_what_each_gives_alone(
    directory: Directory, seed: int
) -> None:
    random = Random(seed)
    commands = neighbours(random)
    done = 0
    for command in (random.choice(commands) for _ in range(10)):
        try:
            found = directory.prove(command)
        except StoreError:
            # Only a folder that was named can hold another run.
            assert "--out" in command
            continue
        assert same(found, directory.fresh(command)), command
        done += 1
    assert done >= 5
