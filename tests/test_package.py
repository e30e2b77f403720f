"""The package as a whole: its public names, its floors, what it imports, its command line."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

import ropewalk
from ropewalk.cli.main import app

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ropewalk"
MODULES = sorted(SOURCE.rglob("*.py"))

FLOORS = (
    "errors",
    "short",
    "shown",
    "files",
    "lengths",
    "listener",
    "rope",
    "packing",
    "kernels",
    "positions",
    "dialects",
    "findings",
    "attention",
    "inputs",
    "decoder",
    "models",
    "tables",
    "accelerate",
    "proof",
    "explain",
    "tiny",
    "extension",
    "comparison",
    "verbs",
    "report",
    "cli",
)
"""From the ground up: a module imports from its own floor and the floors before it."""

HEAVY = ("torch", "transformers", "tokenizers", "gguf", "jinja2", "huggingface_hub", "sqlite3")

OPTIONS = {
    "": {"--version", "--help", "--install-completion", "--show-completion"},
    "audit": {"model", "--pairs", "--json", "--engines"},
    "convert": {
        *("model", "--to", "--out", "--rope", "--length", "--weights", "--original", "--force")
    },
    "prove": {
        "model",
        "--lengths",
        "--depths",
        "--trials",
        "--threshold",
        "--until-certain",
        "--most-trials",
        "--task",
        "--suite",
        "--documents",
        "--questions",
        "--rope",
        "--haystack",
        "--distractors",
        "--chat",
        "--answer-tokens",
        "--seed",
        "--controls",
        "--minutes",
        "--base-url",
        "--api",
        "--tokenizer",
        "--concurrency",
        "--requests-per-minute",
        "--tokens-per-minute",
        "--timeout",
        "--salt",
        "--device",
        "--device-map",
        "--dtype",
        "--sharing",
        "--calibrate",
        "--price",
        "--dry-run",
        "--out",
        "--json",
        "--csv",
    },
    "prove diff": {"run_a", "run_b", "--html", "--seed", "--json"},
    "extend": {
        "model",
        "--to",
        "--for",
        "--method",
        "--factors",
        "--headroom",
        "--rope-theta",
        "--lengths",
        "--depths",
        "--trials",
        "--minutes",
        "--tries",
        "--seed",
        "--text",
        "--out",
        "--copy",
        "--gguf",
        "--work",
        "--device",
        "--dtype",
        "--force",
        "--json",
    },
    "loss": {
        "model",
        "text",
        "--length",
        "--window",
        "--stride",
        "--seed",
        "--device",
        "--dtype",
        "--json",
    },
    "tune": {
        "checkpoint",
        "--data",
        "--steps",
        "--out",
        "--length",
        "--rows",
        "--at-once",
        "--mask",
        "--positions",
        "--cutting",
        "--boundary",
        "--field",
        "--column",
        "--encoding",
        "--lr",
        "--lr-end",
        "--warmup",
        "--decay",
        "--weight-decay",
        "--clip",
        "--dtype",
        "--keep-activations",
        "--attention",
        "--lora",
        "--checkpoint-every",
        "--seed",
        "--device",
        "--gate",
        "--gate-text",
        "--prove",
        "--trials",
        "--context-parallel",
        "--minutes",
        "--json",
    },
    "pack": {
        "files",
        "--tokenizer",
        "--length",
        "--out",
        "--policy",
        "--cutting",
        "--boundary",
        "--left",
        "--multiple",
        "--field",
        "--column",
        "--encoding",
        "--force",
        "--json",
    },
    "compare": {
        "--preset",
        "--encodings",
        "--seeds",
        "--steps",
        "--device",
        "--out",
        "--html",
        "--json",
    },
    "demo": {"--full"},
    "show": {"folder", "--cell", "--threshold"},
    "table near": {
        "words",
        "--id",
        "--text",
        "--plus",
        "--minus",
        "--mul",
        "--top",
        "--exact",
        "--all-rows",
        "--role",
        "--tensor",
        "--view",
        "--json",
    },
    "table similarity": {
        "words",
        "--id",
        "--text",
        "--exact",
        "--html",
        "--role",
        "--tensor",
        "--view",
        "--json",
    },
    "table health": {
        "--top",
        "--sample",
        "--seed",
        "--all-rows",
        "--unused",
        "--role",
        "--tensor",
        "--view",
        "--json",
    },
    "table positions": {"--tensor", "--html", "--json"},
    "table compare": {
        "other",
        "--role",
        "--tensor",
        "--other-tensor",
        "--view",
        "--neighbours",
        "--sample",
        "--seed",
        "--top",
        "--json",
    },
    "table clusters": {
        "--number",
        "--seed",
        "--fitted",
        "--all-rows",
        "--role",
        "--tensor",
        "--view",
        "--json",
    },
    "table map": {
        "--html",
        "--points",
        "--seed",
        "--mean",
        "--neighbours",
        "--clusters",
        "--all-rows",
        "--role",
        "--tensor",
        "--view",
        "--json",
    },
    "table export": {
        "--parquet",
        "--projector",
        "--npy",
        "--safetensors",
        "--word2vec",
        "--sample",
        "--seed",
        "--vectors",
        "--neighbours",
        "--all-rows",
        "--force",
        "--role",
        "--tensor",
        "--view",
        "--json",
    },
    "table resize": {
        "--out",
        "--add",
        "--tokens",
        "--special",
        "--rows",
        "--multiple",
        "--new-rows",
        "--share",
        "--seed",
        "--drop",
        "--tensor",
        "--json",
    },
    "table context": {
        "word",
        "sentences",
        "--occurrence",
        "--pieces",
        "--groups",
        "--html",
        "--json",
    },
    "table score": {
        "--set",
        "--pairs",
        "--analogies",
        "--spelling",
        "--fold",
        "--pieces",
        "--layers",
        "--frame",
        "--role",
        "--tensor",
        "--view",
        "--json",
    },
    "trace": {"model", "text", "--dtype", "--json"},
    "explain join": {
        "model",
        "text_a",
        "text_b",
        "--pairs",
        "--seed",
        "--device",
        "--dtype",
        "--json",
    },
    "explain order": {"--json"},
    "explain scale": {"--json"},
    "explain encodings": {"--json"},
    "doctor": set(),
    "window": {"url", "--model", "--most", "--api", "--tokenizer", "--timeout", "--json"},
}
"""The command line's promise: nothing leaves or joins it without this table saying so."""


def test_public_names_are_those_listed_and_all_of_them_load() -> None:
    assert ropewalk.__all__ == sorted(ropewalk.__all__)
    assert dir(ropewalk) == ropewalk.__all__
    assert {*ropewalk._HOMES, "__version__"} == set(ropewalk.__all__)
    # Twice, because importing a module puts its name into the package that holds it.
    for _ in range(2):
        for name in ropewalk.__all__:
            assert not isinstance(getattr(ropewalk, name), ModuleType), name


def test_no_public_name_is_that_of_a_room() -> None:
    rooms = {path.stem for path in SOURCE.iterdir()}
    assert not rooms & set(ropewalk.__all__)


def test_what_a_type_checker_sees_is_what_loads() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == ropewalk._HOMES


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ropewalk.nothing


def imported(path: Path) -> Iterator[str]:
    """The modules of this package that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("ropewalk"))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            if node.module == "ropewalk":
                yield from (f"ropewalk.{alias.name}" for alias in node.names)
            elif (node.module or "").startswith("ropewalk."):
                yield str(node.module)


def climbs(room: str, module: str) -> bool:
    floor = module.split(".")[1]
    return floor != "__version__" and FLOORS.index(floor) > FLOORS.index(room)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_never_climb(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in {"__init__", "__main__"}:
        return
    assert room in FLOORS
    assert not [module for module in imported(path) if climbs(room, module)]


def test_the_check_of_floors_can_fail() -> None:
    assert climbs("findings", "ropewalk.models.resolve")
    assert climbs("proof", "ropewalk.report.text")
    assert not climbs("report", "ropewalk.proof.prove")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_and_functions_stay_short_enough_to_read(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= 60, f"{path}: {node.name} has {lines} lines"


def loaded_after(program: str, arguments: list[str]) -> set[str]:
    """Which of HEAVY and numpy a fresh interpreter has loaded after running `program`."""
    names = (*HEAVY, "numpy")
    report = f"import sys\nprint([m for m in {names!r} if m in sys.modules], file=sys.stderr)"
    code = f"try:\n    {program}\nfinally:\n    {report.replace(chr(10), chr(10) + '    ')}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(ast.literal_eval(done.stderr.strip()))


def test_no_file_name_stands_more_than_twice_and_no_public_class_name_twice() -> None:
    names = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 2] == []
    classes = Counter(
        node.name
        for path in MODULES
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    verbs = "import ropewalk; ropewalk.audit; ropewalk.prove; ropewalk.tune"
    assert loaded_after(verbs, []) == set()


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_audit_from_the_command_line_loads_numpy_at_most(
    tmp_path: Path, options: list[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 64,
                "num_attention_heads": 4,
                "num_hidden_layers": 2,
                "max_position_embeddings": 2048,
                "rope_theta": 10000.0,
            }
        )
    )
    program = "import ropewalk.cli.main as m; m.main()"
    assert loaded_after(program, ["audit", str(config), *options]) <= {"numpy"}


def test_the_check_of_loaded_modules_can_fail() -> None:
    assert loaded_after("import jinja2, sqlite3", []) == {"jinja2", "sqlite3"}


EVERYWHERE = {"--json", "--html", "--open"}
"""What every command takes that prints a result."""


def options_of(command: Any) -> set[str]:
    return {
        next((name for name in parameter.opts if name.startswith("--")), parameter.name)
        for parameter in command.params
    }


def commands_of(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its full name, those of a group within the group by both."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{before}{name} ")
        else:
            yield before + name, command


def test_the_command_line_is_what_it_was_said_to_be() -> None:
    group: Any = typer.main.get_command(app)
    commands = {name: options_of(command) for name, command in commands_of(group)}
    for taken in commands.values():
        assert taken >= EVERYWHERE
        taken -= EVERYWHERE
    listed = {name: options - EVERYWHERE for name, options in OPTIONS.items()}
    assert {"": options_of(group) | {"--help"}, **commands} == listed


def test_the_changelog_begins_with_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == version == ropewalk.__version__
