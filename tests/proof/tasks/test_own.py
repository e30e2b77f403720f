"""Questions over the user's own documents: what is read, what is refused, what is laid out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ropewalk.errors import UsageError
from ropewalk.proof.cells import Cell
from ropewalk.proof.facts import settings_facts
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.tasks.own import OwnDocuments, OwnQuestion, read_own
from ropewalk.proof.tokens import Tokens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "own"
    (place / "deep").mkdir(parents=True)
    (place / "harbour.md").write_text("The pier was built by Anna Lindt. It is long.")
    (place / "deep" / "mill.txt").write_text("The mill grinds rye. It stands by the brook.")
    for number in range(6):
        lines = [f"Remark {number} on item {line} was noted with care." for line in range(20)]
        (place / f"notes{number}.txt").write_text(" ".join([*lines, "They grind rye too."]))
    return place


def asked(folder: Path, *lines: str) -> Path:
    file = folder.parent / "questions.jsonl"
    file.write_text("\n".join(lines))
    return file


def test_the_document_with_the_answer_is_laid_whole_among_the_others(
    folder: Path, tiny_tokenizer: Callable[[str], Any]
) -> None:
    line = '{"question": "Who built the pier?", "answer": "anna lindt"}'
    task = read_own(folder, asked(folder, line, ""))
    make = PromptMaker(Tokens(tiny_tokenizer("bos")), tasks={task.name: task})
    for depth in (0.0, 0.5, 1.0):
        prompt = make(Cell(900, depth, 0, task="documents"))
        assert 0 <= 900 - prompt.length <= 2
        assert prompt.text.count("The pier was built by Anna Lindt. It is long.") == 1
        assert "Remark" in prompt.text
        assert prompt.value == "anna lindt"
        assert abs(prompt.depth - depth) < 0.1


def test_what_also_holds_the_answer_is_left_out_of_the_text_around_it(folder: Path) -> None:
    line = '{"question": "What is ground?", "answer": "rye", "document": "deep/mill.txt"}'
    problem = read_own(folder, asked(folder, line)).draw(Random(0), 0.5, 900)
    assert problem.sentences
    assert not [sentence for sentence in problem.sentences if "rye" in sentence]


def test_a_longer_word_neither_holds_the_answer_nor_is_left_out(folder: Path) -> None:
    (folder / "rye.txt").write_text("Ryeford lies by the sea. So does Goodryehill.")
    (folder / "notes0.txt").write_text("Nothing is said here.")
    for file in folder.glob("notes[1-9].txt"):
        file.unlink()
    task = read_own(folder, asked(folder, '{"question": "What is ground?", "answer": "rye"}'))
    problem = task.draw(Random(0), 0.5, 900)
    assert problem.key == "deep/mill.txt"
    assert problem.sentences is not None
    assert "Ryeford lies by the sea." in problem.sentences


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "line 1 is not JSON"),
        ("[1]", "line 1 is no object"),
        ('{"question": "a"}', 'line 1 has no text for "answer"'),
        ('{"question": " ", "answer": "b"}', 'line 1 has no text for "question"'),
        ('{"question": "a", "answer": "basalt"}', "no document holds the answer 'basalt'"),
        ('{"question": "a", "answer": "rye"}', "7 documents hold the answer 'rye'"),
        ('{"question": "a", "answer": "rye", "document": "x.txt"}', "no document 'x.txt'"),
        ('{"question": "a", "answer": "rye, oats"}', "would be read as a list"),
        ('{"question": "a", "answer": "$"}', "is only signs that are not compared"),
        ('{"question": "a", "answer": "ye"}', "no document holds the answer 'ye'"),
        ("", "holds no question"),
    ],
)
def test_a_question_that_cannot_be_asked_is_named_with_its_line(
    folder: Path, line: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        read_own(folder, asked(folder, line))


def test_folders_and_files_that_are_not_there_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        read_own(tmp_path / "missing", tmp_path / "q.jsonl")
    with pytest.raises(UsageError, match="cannot be read"):
        read_own(folder, tmp_path / "q.jsonl")
    with pytest.raises(UsageError, match="at least 2 are needed"):
        read_own(folder / "deep", tmp_path / "q.jsonl")


def test_a_run_is_known_by_every_word_of_its_questions() -> None:
    def recipe(answer: str) -> str:
        asked = tuple(OwnQuestion("word " * 200 + str(i), f"{i}", "a.txt") for i in range(50))
        own = OwnDocuments(
            {"a.txt": ("A sentence.",)}, (*asked, OwnQuestion("Who?", answer, "a.txt"))
        )
        return settings_facts(ProofSettings("tiny"), None, own, chat=False)["recipe"]

    assert recipe("Ann") == recipe("Ann")
    assert recipe("Ann") != recipe("Bob")
