"""npy read by numpy, safetensors by its own library, and both by this package again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors
from safetensors import safe_open
from safetensors.torch import load_file

from ropewalk.errors import UsageError
from ropewalk.tables.export.arrays import write_npy, write_safetensors, write_word2vec
from ropewalk.tables.export.rows import finite
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.sample import choose_rows

MakeTable = Callable[..., EmbeddingTable]


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (torch.float32, np.float32),
        (torch.float16, np.float16),
        (torch.float64, np.float64),
        (torch.bfloat16, np.float32),
    ],
)
def test_numpy_reads_every_row(
    make_table: MakeTable, tmp_path: Path, dtype: torch.dtype, kept: type
) -> None:
    rows = torch.randn(33, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    written = write_npy(make_table(None, rows), tmp_path / "t.npy")
    read = np.load(tmp_path / "t.npy", allow_pickle=False)
    assert read.dtype == kept
    np.testing.assert_array_equal(read, rows.double())
    assert ("widened" in " ".join(written.said)) is (dtype is torch.bfloat16)
    again = open_table(tmp_path / "t.npy")
    assert torch.equal(again.whole().double(), rows.double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_safetensors_keep_name_dtype_bits_and_provenance(
    make_table: MakeTable, tmp_path: Path, dtype: torch.dtype
) -> None:
    rows = torch.randn(33, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    rows[3] = torch.nan
    write_safetensors(make_table(None, rows), tmp_path / "t.safetensors")
    read = load_file(tmp_path / "t.safetensors")
    assert list(read) == ["embed_tokens.weight"]
    assert torch.equal(
        read["embed_tokens.weight"].view(torch.uint8), rows.contiguous().view(torch.uint8)
    )
    with safe_open(tmp_path / "t.safetensors", "pt") as file:
        about = file.metadata()
    assert about["tensor"] == "embed_tokens.weight"
    assert about["rows"] == "all 33 rows"
    assert about["view"] == "raw"
    assert open_table(tmp_path / "t.safetensors").shape == (33, 5)


def test_sampled_rows_carry_their_ids(make_table: MakeTable, tmp_path: Path) -> None:
    rows = torch.randn(33, 5, generator=torch.Generator().manual_seed(0))
    table = make_table(None, rows)
    write_safetensors(table, tmp_path / "t.safetensors", choose_rows(table, 7, seed=2))
    read = load_file(tmp_path / "t.safetensors")
    assert read["token_ids"].tolist() == sorted(set(read["token_ids"].tolist()))
    assert torch.equal(read["embed_tokens.weight"], rows[read["token_ids"]])


def test_quantised_rows_come_out_as_numbers(smollm2_gguf: Path, tmp_path: Path) -> None:
    table = open_table(smollm2_gguf)
    write_safetensors(table, tmp_path / "t.safetensors", choose_rows(table, 50, seed=1))
    read = load_file(tmp_path / "t.safetensors")
    assert torch.equal(read["token_embd.weight"], table[read["token_ids"].tolist()])
    with safe_open(tmp_path / "t.safetensors", "pt") as file:
        assert file.metadata()["storage"] == "Q8_0"


def _write(table: EmbeddingTable, path: Path, most: int | None = None) -> tuple[str, ...]:
    chosen = choose_rows(table, most)
    return write_word2vec(table, path, finite(table, chosen), chosen.line).said


def test_gensim_reads_back_every_key_and_every_number(
    make_table: MakeTable, tmp_path: Path
) -> None:
    rows = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)) * 1e-3
    words = ["cat", "é", "日本", "<unk>", "##ing"]
    _write(make_table(words, rows), tmp_path / "t.txt")
    read = KeyedVectors.load_word2vec_format(str(tmp_path / "t.txt"))
    assert read.index_to_key == words
    np.testing.assert_array_equal(read.vectors, rows)


def test_a_sample_of_a_real_vocabulary_goes_through_gensim(minilm: Path, tmp_path: Path) -> None:
    table = open_table(minilm)
    said = _write(table, tmp_path / "t.txt", most=500)
    assert said == ("500 of 30,522 rows, drawn without preference, none twice, seed 0",)
    read = KeyedVectors.load_word2vec_format(str(tmp_path / "t.txt"))
    assert table.vocabulary is not None
    for key in read.index_to_key[::50]:
        (row,) = table.vocabulary.ids(key.encode())
        np.testing.assert_array_equal(read[key], table[row])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["a", "b c", "d e"], r"row 1 \(b␣c\): its key holds a blank"),
        (["a", " the"], r"row 1 \(␣the\)"),
        (["a", "\n"], r"row 1 \(<0x0A>\)"),
        (["a", "b\u00a0c"], "row 1"),
        (["a", "b\u3000"], "row 1"),
        (["\x1c"], "row 0"),
        (["", "b"], r"row 0 \(an empty key\): its key is empty"),
    ],
)
def test_the_first_key_that_would_not_be_read_back_is_named_and_nothing_written(
    make_table: MakeTable, tmp_path: Path, words: list[str], named: str
) -> None:
    table = make_table(words, torch.ones(len(words), 3))
    with pytest.raises(UsageError, match=named):
        _write(table, tmp_path / "t.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_byte_level_vocabulary_and_none_at_all_are_refused(
    make_table: MakeTable, smollm2_gguf: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="is no text in UTF-8; nothing was written"):
        _write(open_table(smollm2_gguf), tmp_path / "t.txt")
    with pytest.raises(UsageError, match="comes without a vocabulary"):
        _write(make_table(None, torch.ones(2, 2)), tmp_path / "t.txt")


def test_rows_that_are_not_finite_are_left_out_and_named(
    make_table: MakeTable, tmp_path: Path
) -> None:
    rows = torch.ones(3, 2)
    rows[1, 0] = torch.nan
    said = _write(make_table(["a", "b", "c"], rows), tmp_path / "t.txt")
    assert "rows 1" in said[1]
    assert KeyedVectors.load_word2vec_format(str(tmp_path / "t.txt")).index_to_key == ["a", "c"]
    rows[:] = torch.nan
    with pytest.raises(UsageError, match="none of the 3 chosen rows"):
        _write(make_table(["a", "b", "c"], rows, "other"), tmp_path / "u.txt")
