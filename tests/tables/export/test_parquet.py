"""Parquet read back with pyarrow alone, and the columns that embedding-atlas documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from ropewalk.errors import StoreError
from ropewalk.tables.export.parquet import write_parquet
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.principal import nearest, project

MakeTable = Callable[..., EmbeddingTable]


def test_every_key_comes_back_byte_for_byte(hostile: EmbeddingTable, tmp_path: Path) -> None:
    shown = project(hostile)
    written = write_parquet(hostile, tmp_path / "t.parquet", shown)
    read = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert hostile.vocabulary is not None
    keys = [token.key for token in hostile.vocabulary.tokens if token is not None]
    assert read["token_bytes"] == keys
    assert read["token_id"] == list(range(10))
    assert len(set(read["token_text"])) == 10
    assert read["token_text"][:3] == ["cat", "a<0x09>b", "line<0x0A>end"]
    assert set(read["kind"]) == {"text"}
    np.testing.assert_allclose(read["norm"], hostile.whole().norm(dim=1), rtol=1e-6)
    np.testing.assert_allclose(np.stack([read["x"], read["y"]], 1), shown.places)
    assert written.rows == 10
    assert written.size == (tmp_path / "t.parquet").stat().st_size


def test_neighbours_are_row_numbers_of_the_file_and_vectors_are_the_rows(
    make_table: MakeTable, tmp_path: Path
) -> None:
    rows = torch.randn(60, 6, generator=torch.Generator().manual_seed(1))
    rows[7] = 0.0
    rows[30] = torch.nan
    table = make_table([f"w{i}" for i in range(50)], rows)
    shown = project(table)
    near = nearest(table, shown, 4)
    written = write_parquet(table, tmp_path / "t.parquet", shown, near=near, vectors=True)
    read = pq.read_table(tmp_path / "t.parquet")
    ids = np.array(read["token_id"].to_pylist())
    assert ids.tolist() == [i for i in range(50) if i not in (7, 30)]
    vectors = np.array(read["vector"].to_pylist(), dtype=np.float32)
    np.testing.assert_array_equal(vectors, rows[ids])
    index = NearestNeighbors(n_neighbors=5, metric="cosine", algorithm="brute").fit(vectors)
    distances, at = index.kneighbors(vectors)
    held = read["neighbors"].to_pylist()
    np.testing.assert_array_equal([h["ids"] for h in held], at[:, 1:])
    np.testing.assert_allclose([h["distances"] for h in held], distances[:, 1:], atol=1e-6)
    said = " ".join(written.said)
    assert "10 rows without a token are left out" in said
    assert "not finite: 1 rows, from row 30" in said
    assert "without a direction: 1 zero rows: 7" in said


def test_the_schema_says_where_rows_came_from_and_how_axes_were_made(
    hostile: EmbeddingTable, tmp_path: Path
) -> None:
    write_parquet(hostile, tmp_path / "t.parquet", project(hostile, most=6, seed=9))
    schema = pq.read_schema(tmp_path / "t.parquet")
    about = json.loads(schema.metadata[b"ropewalk"])
    assert about["tensor"] == "embed_tokens.weight"
    assert about["file"] == "model.safetensors"
    assert about["shape"] == "10 x 4"
    assert about["rows"].startswith("6 of 10 rows, drawn without preference, none twice, seed 9")
    assert "about the mean" in about["axes"]
    assert {"token_id", "token_bytes", "token_text", "kind", "norm", "x", "y"} == set(schema.names)


def test_rows_come_in_groups_that_need_not_be_held_together(minilm: Path, tmp_path: Path) -> None:
    table = open_table(minilm)
    write_parquet(table, tmp_path / "t.parquet", project(table), vectors=True)
    file = pq.ParquetFile(tmp_path / "t.parquet")
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert sizes == [8192, 8192, 8192, 5946]
    last = file.read_row_group(3, ["token_id", "token_text", "vector"]).to_pylist()[-1]
    assert last["token_id"] == 30521
    assert last["token_text"] == table.label(30521)
    np.testing.assert_array_equal(np.array(last["vector"], dtype=np.float32), table[30521])


def test_a_folder_in_the_way_leaves_nothing_behind(hostile: EmbeddingTable, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        write_parquet(hostile, tmp_path / "there", project(hostile))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "there"]
