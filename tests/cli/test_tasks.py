"""Proofs of several tasks, of own questions, and of further trials, as a user runs them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ropewalk.errors import UsageError
from ropewalk.proof.cells import Control, Sharing
from tests.cli.conftest import Prove

NONE = Sharing.NONE
GRID = ("--lengths", "900,1100", "--depths", "0,100", "--trials", "1")


def test_each_task_gets_its_prompts_its_map_and_its_line(prove: Prove, tiny_model: Path) -> None:
    done = prove(tiny_model, *GRID, "--task", "single,many-keys,variables")
    rows = done.rows()
    by_task = {row.cell.task for row in rows}
    assert by_task == {"single", "many-keys", "variables"}
    for task in by_task:
        asked = [row.cell for row in rows if row.cell.task == task and row.sharing is not NONE]
        grid = [(cell.length, cell.depth) for cell in asked if cell.control is Control.NONE]
        assert sorted(grid) == [(900, 0.0), (900, 1.0), (1100, 0.0), (1100, 1.0)]
    heads = re.findall(r"^task ([a-z-]+)$", done.out, re.MULTILINE)
    assert heads == ["single", "many-keys", "variables"]
    assert "share of hits with guessing taken out" in done.out
    page = (done.folder / "report.html").read_text()
    for task in heads:
        assert f"Task {task}: Retrieval at every length and depth" in page
    assert page.count("<svg") >= 3
    assert "#cell=900,0.0,,,many-keys" in page


def test_json_has_a_summary_of_each_task(prove: Prove, tiny_model: Path) -> None:
    done = prove(tiny_model, *GRID, "--task", "count,order", "--json")
    document = json.loads(done.out)
    assert list(document["tasks"]) == ["order", "count"]
    assert {row["task"] for row in document["rows"]} == {"order", "count"}
    for summary in document["tasks"].values():
        assert summary["lengths"] == [900, 1100]
        assert summary["depths"] == [0.0, 1.0]
    assert "prefix sharing: " in done.err
    assert "only the task single hides one needle" in done.err


def test_a_suite_is_its_tasks(prove: Prove, tiny_model: Path) -> None:
    done = prove(tiny_model, *GRID, "--suite", "quick", "--dry-run")
    # Three tasks of four fields; each has the needle alone and the text without it.
    assert "18 prompts, " in done.err


def test_own_questions_are_asked_over_own_documents(
    prove: Prove, tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "port.md").write_text("The ferry leaves at seven. It is painted in ochre.")
    lines = " ".join(f"Line {number} of the other file says nothing." for number in range(300))
    (folder / "rest.txt").write_text(lines)
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What colour is the ferry?", "answer": "ochre"}\n')
    own = ("--documents", str(folder), "--questions", str(questions))
    done = prove(tiny_model, *GRID, *own)
    assert {row.cell.task for row in done.rows()} == {"documents"}
    assert {row.value for row in done.rows()} == {"ochre"}
    recipe = done.facts()["recipe"]
    assert re.search(r"tasks documents, own questions [0-9a-f]{16}$", recipe)
    questions.write_text('{"question": "When does it leave?", "answer": "seven"}\n')
    other = prove(tiny_model, *GRID, *own, name="other")
    assert other.facts()["recipe"] != recipe


def test_until_certain_asks_on_where_the_verdict_is_open_up_to_the_cap(
    prove: Prove, tiny_model: Path
) -> None:
    # A random model hits nothing: against a bar of 5 % a few trials leave every length open.
    rule = ("--threshold", "absolute:0.05", "--sharing", "none")
    done = prove(tiny_model, *GRID, *rule, "--until-certain", "--most-trials", "3")
    grid = [row.cell for row in done.rows() if row.cell.control is Control.NONE]
    assert {cell.trial for cell in grid} == {0, 1, 2}
    assert "not certain yet at 900, 1,100 tokens: 4 more prompts" in done.err
    assert done.facts()["until_certain"] == "3"
    assert "all looks together" in done.out
    again = prove(tiny_model, *GRID, *rule, "--until-certain", "--most-trials", "3")
    assert again.rows() == done.rows()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--task", "riddles"), "there is no task 'riddles'"),
        (("--suite", "quick", "--task", "single"), "give one of them"),
        (("--task", "documents"), "needs --documents FOLDER"),
        (("--questions", "q.jsonl"), "go together"),
        (("--most-trials", "9"), "goes with --until-certain"),
        (("--until-certain", "--most-trials", "0"), "0 trials at most"),
        (("--sharing", "branches", "--distractors", "1"), "--sharing branches cannot be"),
        (("--sharing", "prefix", "--calibrate", "full"), "there is nothing to calibrate"),
        (("--device-map", "everywhere"), "--device-map 'everywhere' is not understood"),
        (("--device-map", '{"": 1.5}'), "a device is a number or a name"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(
    options: tuple[str, ...], sentence: str, prove: Prove, tiny_model: Path
) -> None:
    with pytest.raises(UsageError) as error:
        prove(tiny_model, *GRID, *options)
    assert sentence in str(error.value)
