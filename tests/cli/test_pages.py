"""Every command that prints a result gives it as JSON and as a page, too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from ropewalk.cli.main import app
from ropewalk.cli.pages import with_page

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(tmp_path: Path, llama_config: dict[str, Any]) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(llama_config))
    return path


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file into which a browser, started instead of a real one, writes what it is to open."""
    opened = tmp_path / "opened.txt"
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\nprintf '%s' \"$1\" > '{opened}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    return opened


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def shown(page: str) -> str:
    """What a reader sees of the result."""
    body = page.split("</head>")[1]
    return unescape(re.sub(r"<[^>]+>", " ", body))


def test_every_command_takes_json_html_and_open() -> None:
    found = dict(commands(typer.main.get_command(app)))
    assert len(found) > 25
    for name, command in found.items():
        assert {"--json", "--html", "--open"} <= options(command), name


def test_a_page_shows_what_was_printed_and_needs_nothing_from_outside(
    run: Run, config: Path
) -> None:
    done = run("audit", config, "--html", "page.html")
    assert (done.returncode, done.stderr) == (0, "page: page.html\n")
    page = (config.parent / "page.html").read_text(encoding="utf-8")
    words = re.compile(r"[\w.]+")
    assert set(words.findall(done.stdout)) <= set(words.findall(shown(page)))
    assert f"$ ropewalk audit {config}" in unescape(page)
    assert "default-src 'none'" in page
    assert not re.search(r"<script|https?://|style=|url\(", page)


def test_json_and_page_may_be_asked_for_together(run: Run, config: Path) -> None:
    done = run("audit", config, "--json", "--html", "page.html")
    assert json.loads(done.stdout)["schema"]
    page = (config.parent / "page.html").read_text(encoding="utf-8")
    run("audit", config, "--html", "other.html")
    other = (config.parent / "other.html").read_text(encoding="utf-8")
    assert page.split("<header>")[1].split("<h1>")[1] == other.split("<header>")[1].split("<h1>")[1]


def test_what_a_command_without_a_document_printed_is_shown_and_never_obeyed(
    tmp_path: Path,
) -> None:
    def command() -> None:
        typer.echo("\x1b[31mred\x1b[0m <script>alert()</script> \x07 \u202eturned &amp;")

    page = tmp_path / "page.html"
    with_page(command)(html=page, open_page=False)
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "red <script>alert()</script> \\x07 \\u202eturned &amp;" in shown(text)


def test_open_starts_the_browser_on_the_page(run: Run, config: Path, browser: Path) -> None:
    done = run("audit", config, "--html", "page.html", "--open")
    assert done.returncode == 0, done.stderr
    assert browser.read_text() == (config.parent / "page.html").as_uri()


def test_open_alone_writes_a_temporary_page_and_says_where(
    run: Run, config: Path, browser: Path
) -> None:
    done = run("audit", config, "--open")
    assert done.returncode == 0, done.stderr
    page = Path(done.stderr.removeprefix("page: ").strip())
    assert browser.read_text() == page.as_uri()
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_without_a_browser_the_page_is_named(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "false")
    monkeypatch.setenv("PATH", "/nonexistent")
    done = run("audit", config, "--html", "page.html", "--open")
    assert done.returncode == 0
    assert done.stderr.startswith("page: page.html\n")
    assert "no browser could be started" in done.stderr


@pytest.mark.parametrize(
    ("place", "remedy"), [(".", "name a file in it"), ("missing/page.html", "make it first")]
)
def test_a_page_that_cannot_be_is_said_before_the_work(
    run: Run, config: Path, place: str, remedy: str
) -> None:
    done = run("audit", config, "--html", place)
    assert (done.returncode, done.stdout) == (2, "")
    assert remedy in done.stderr


def test_a_command_without_a_result_leaves_no_temporary_folder(
    run: Run, tmp_path: Path, browser: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    done = run("audit", "nowhere", "--open", env={"TMPDIR": str(tmp_path / "temporary")})
    assert done.returncode == 2
    assert not list((tmp_path / "temporary").iterdir())
    assert not browser.exists()


def test_what_was_asked_wrongly_leaves_no_page(run: Run, tmp_path: Path) -> None:
    assert run("audit", "nowhere", "--html", "page.html").returncode == 2
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_result_with_exit_code_1_has_its_page(
    code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        typer.echo("a result")
        raise typer.Exit(code)

    page = tmp_path / "page.html"
    with pytest.raises(typer.Exit):
        with_page(command)(html=page, open_page=False)
    assert page.exists() == (code != 2)
    assert capsys.readouterr().out == "a result\n"
    assert sys.stdout.write("") == 0


def test_convert_gives_options_and_configurations_as_json(run: Run, config: Path) -> None:
    done = run("convert", config, "--to", "vllm", "--rope", "yarn:2", "--json")
    document = json.loads(done.stdout)
    assert (
        document["options"]
        == run("convert", config, "--to", "vllm", "--rope", "yarn:2").stdout[:-1]
    )
    assert any("vLLM" in remark for remark in document["remarks"])
    document = json.loads(run("convert", config, "--to", "hf5", "--json").stdout)
    assert document["config"] == json.loads(run("convert", config, "--to", "hf5").stdout)
    written = json.loads(run("convert", config, "--to", "hf4", "--out", "x.json", "--json").stdout)
    assert written["written"] == "x.json"


def test_doctor_gives_what_it_prints_as_json(run: Run) -> None:
    document = json.loads(run("doctor", "--json").stdout)
    printed = run("doctor").stdout
    assert document["parts"]["torch"] in printed
    assert all(str(model["path"]) in printed for model in document["models"].values())


def test_a_proof_and_its_folder_give_the_same_document_and_the_same_map(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    grid = ("--lengths", "300", "--depths", "50%", "--trials", "1", "--calibrate", "off")
    proved = run("prove", tiny_model, *grid, "--out", "run", "--json", "--html", "proof.html")
    assert proved.returncode == 0, proved.stderr
    shown_again = run("show", "run", "--json", "--html", "again.html")
    assert shown_again.returncode == 0, shown_again.stderr
    one, other = json.loads(proved.stdout), json.loads(shown_again.stdout)
    assert one["summary"]["cells"] == other["summary"]["cells"]
    assert one["rows"] == other["rows"]
    for name in ("proof.html", "again.html"):
        assert "300" in (tmp_path / name).read_text(encoding="utf-8")
    assert (tmp_path / "proof.html").read_text() == (tmp_path / "run/report.html").read_text()
    cell = json.loads(run("show", "run", "--cell", "300,50,0", "--json").stdout)
    assert cell["prompt"].encode() == run("show", "run", "--cell", "300,50,0").stdout.encode()
    assert cell["length"] == 300
