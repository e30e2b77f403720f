"""Which rows stand for what was typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ropewalk.errors import ModelFileError, RowError, UsageError
from ropewalk.kernels.arrays import as_tensor
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.words import WordRows, of_row, of_text, of_word

PIECES = ["cat", "Ġcat", "Cat", "dog", "Ġ", "Ċ", "th", "e", "ĠTHE", "Ã", "c", "a", "t", "u", "Ġu"]


def a_table(folder: Path, rows: int = len(PIECES)) -> EmbeddingTable:
    vocab = {piece: row for row, piece in enumerate(PIECES)}
    tokenizer = {
        "version": "1.0",
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "added_tokens": [],
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    save_file({"embed_tokens.weight": torch.eye(rows, 20)}, folder / "model.safetensors")
    return open_table(folder)


def test_the_word_with_a_space_before_it_is_used_where_it_is_a_token(tmp_path: Path) -> None:
    asked = of_word(a_table(tmp_path), "cat")
    assert asked.ids == (1,)
    assert asked.used is not None
    assert asked.used.form == "space before"
    assert [(s.key, s.ids) for s in asked.others] == [(b"cat", (0,)), (b"Cat", (2,))]


def test_else_the_word_as_it_was_written_and_never_in_another_case(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    assert of_word(table, "dog").ids == (3,)
    assert of_word(table, "Cat").ids == (2,)
    with pytest.raises(UsageError, match=r"'the' is no single token.*spellings that are one: ␣THE"):
        of_word(table, "the")


def test_exact_takes_the_bytes_that_are_shown(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    forms = {"cat": 0, "␣cat": 1, "␣": 4, "<0x0A>": 5, "<0xC3>": 9}
    assert {form: of_word(table, form, exact=True).ids[0] for form in forms} == forms
    with pytest.raises(UsageError, match="no token is exactly 'cats'"):
        of_word(table, "cats", exact=True)


@pytest.mark.parametrize("word", ["", " ", "\n"])
def test_a_word_of_nothing_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(UsageError, match=r"give a word, or with --exact"):
        of_word(a_table(tmp_path), word)


def test_a_word_of_several_tokens_names_them_and_the_way_to_ask(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cut into a c t.*--text"):
        of_word(a_table(tmp_path), "act")


def test_a_text_is_the_mean_of_its_tokens_at_length_1(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    asked = of_text(table, "act")
    assert asked.ids == (11, 10, 12)
    expected = torch.eye(len(PIECES), 20).double()[list(asked.ids)].mean(0)
    torch.testing.assert_close(as_tensor(asked.vector(table)), expected)
    with pytest.raises(UsageError, match="the text is empty"):
        of_text(table, "")


def test_a_token_behind_the_last_row_is_a_located_error(tmp_path: Path) -> None:
    table = a_table(tmp_path, rows=4)
    with pytest.raises(RowError, match=r"␣THE is token 8, .* has 4 rows, 0 to 3: this token has"):
        of_word(table, "THE")
    with pytest.raises(RowError, match="row 11"):
        of_text(table, "act")
    with pytest.raises(RowError, match=r"row 4 .* it has 4 rows, 0 to 3"):
        of_row(table, 4)


def test_without_a_vocabulary_only_numbers_are_rows(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    bare = open_table(tmp_path)
    assert of_row(bare, 3) == WordRows("<id 3>", (3,))
    with pytest.raises(UsageError, match=r"no tokenizer lies beside the table.*--id"):
        of_word(bare, "cat")
    assert table.vocabulary is None


def test_rows_without_direction_cannot_be_asked_for(tmp_path: Path) -> None:
    save_file(
        {"embed_tokens.weight": torch.tensor([[0.0], [1.0], [-1.0]])}, tmp_path / "m.safetensors"
    )
    table = open_table(tmp_path / "m.safetensors")
    with pytest.raises(UsageError, match="row 0, <id 0>, is all zeros: it has no direction"):
        of_row(table, 0).vector(table)
    with pytest.raises(UsageError, match="cancel one another out"):
        WordRows("both", (1, 2)).vector(table)


def test_a_tokenizer_that_cannot_be_brought_up_is_a_located_error(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    assert table.vocabulary is not None
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"tokenizer.json cannot be brought up"):
        of_text(table, "cat")
