"""Benchmark files: read whole, and located where a line is none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ropewalk.errors import MissingPartError, ModelFileError
from ropewalk.tables.score.datasets import (
    PACKED,
    JudgedPair,
    packed_file,
    read_analogies,
    read_pairs,
)


def test_the_packed_sets_have_as_many_as_their_names_say() -> None:
    pytest.importorskip("gensim")
    assert len(read_pairs(packed_file("wordsim353")).pairs) == 353
    assert len(read_pairs(packed_file("simlex999")).pairs) == 999
    analogies = read_analogies(packed_file("analogies"))
    # Mikolov et al. 2013, table 1: 8,869 semantic and 10,675 syntactic questions.
    assert len(analogies.questions) == 8_869 + 10_675
    assert len({q.section for q in analogies.questions}) == 14


@pytest.mark.parametrize("name", list(PACKED))
def test_without_gensim_it_is_said_what_to_install_or_give(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    option = "--analogies FILE" if name == "analogies" else "--pairs FILE"
    with pytest.raises(MissingPartError, match=f"{name}.*pip install gensim.*{option}"):
        packed_file(name)


@pytest.mark.parametrize("mark", ["\t", ",", ";", " ", " , "])
def test_fields_stand_apart_by_tabs_commas_or_spaces(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "pairs.txt"
    path.write_bytes(f"# comment\r\n\r\ncat{mark}dog{mark}7.5\r\n".encode("utf-8-sig"))
    assert read_pairs(path).pairs == (JudgedPair("cat", "dog", 7.5),)


@pytest.mark.parametrize(
    "line", ["cat dog", "cat dog x", "cat dog nan", "cat dog 1 2", "cat\t\t3", "cat dog inf"]
)
def test_a_line_that_is_no_pair_is_located(tmp_path: Path, line: str) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text(f"a b 1\n\n{line}\n")
    with pytest.raises(ModelFileError, match=r"pairs\.txt, line 3: .* is no pair"):
        read_pairs(path)


def test_analogies_are_located_too(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("a b c d\n")
    with pytest.raises(ModelFileError, match=r"line 1: .* stands before the first"):
        read_analogies(path)
    path.write_text(": one\na b c d\na b c\n")
    with pytest.raises(ModelFileError, match=r"line 3: .* has 3 words"):
        read_analogies(path)
    path.write_text(": one\n")
    with pytest.raises(ModelFileError, match="holds no question"):
        read_analogies(path)


def test_files_that_are_empty_absent_or_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        read_pairs(path)
    path.write_text("# nothing\n")
    with pytest.raises(ModelFileError, match="holds no pair"):
        read_pairs(path)
    path.write_bytes(b"a\xff b 1\n")
    with pytest.raises(ModelFileError, match="not UTF-8"):
        read_pairs(path)
