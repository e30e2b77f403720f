"""npy read by numpy, safetensors by its own library, and both by this package again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from ropewalk.tables.export.arrays import write_npy, write_safetensors
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
