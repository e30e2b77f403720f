"""A file of rows, written and read again: nothing lost, shared out, resumable, never half."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ropewalk.errors import DataFileError, UsageError
from ropewalk.packing import row_file
from ropewalk.packing.files import (
    PackSettings,
    boundary_named,
    pack_files,
    policy_named,
)
from ropewalk.packing.pack import Boundary, pack
from ropewalk.packing.policies import BestFit, InOrder
from ropewalk.packing.read import PackedFile

Tiny = Callable[[str], Any]


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_file, "GROUP_TOKENS", 256)


def _texts(folder: Path) -> list[str]:
    texts = [f"the whale {'sea ' * n}number {n}" for n in range(40)]
    for number, text in enumerate(texts):
        (folder / f"{number:03}.txt").write_text(text)
    return texts


def _packed(folder: Path, tokenizer: Any, **changes: Any) -> PackedFile:
    from ropewalk.packing.texts import sources

    settings = PackSettings(**{"length": 64, "policy": BestFit(4), **changes})
    out = folder.parent / "rows.parquet"
    pack_files(sources([folder]), tokenizer, settings, out, name="tiny")
    return PackedFile.open(out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "texts"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    "changes", [{}, {"left": True, "multiple": 4}, {"policy": InOrder(), "cutting": "split"}]
)
def test_rows_read_back_spell_the_documents_again(
    folder: Path, tiny_tokenizer: Tiny, changes: dict[str, Any]
) -> None:
    texts, tokenizer = _texts(folder), tiny_tokenizer("bos")
    file = _packed(folder, tokenizer, boundary=Boundary(after=1), **changes)
    parts: dict[int, dict[int, list[int]]] = defaultdict(dict)
    for _, row in file.rows():
        for piece, start in zip(row.layout.pieces, row.layout.starts, strict=True):
            part = row.token_ids[start : start + piece.length].tolist()
            parts[piece.document][piece.start] = part
    whole = {n: [i for at in sorted(p) for i in p[at]] for n, p in parts.items()}
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    assert whole == {n: [*one, 1] for n, one in enumerate(ids)}
    assert len(file.groups) > 3
    assert file.about["tokenizer"]["name"] == "tiny"
    assert file.about["documents"] == 40
    assert file.about["rows"] == len(file)


def test_the_ranks_rows_are_all_rows_once_wherever_reading_starts(
    folder: Path, tiny_tokenizer: Tiny
) -> None:
    _texts(folder)
    file = _packed(folder, tiny_tokenizer("bare"))
    everything = {number: row.token_ids.tolist() for number, row in file.rows()}
    assert list(everything) == list(range(len(file)))
    for start in (0, 1, 5, len(file)):
        shares = [dict(file.rows(start, rank=rank, ranks=3)) for rank in range(3)]
        numbers = sorted(n for share in shares for n in share)
        assert numbers == list(range(start, len(file)))
        for rank, share in enumerate(shares):
            assert all(n % 3 == rank for n in share)
            assert all(row.token_ids.tolist() == everything[n] for n, row in share.items())
    even = [sum(1 for _ in file.rows(rank=r, ranks=5, even=True)) for r in range(5)]
    assert set(even) == {len(file) // 5}


def test_other_readers_see_plain_lists(folder: Path, tiny_tokenizer: Tiny) -> None:
    _texts(folder)
    file = _packed(folder, tiny_tokenizer("bare"))
    table = pq.read_table(file.path)
    assert table.column_names == ["input_ids", "seq_lens", "documents", "starts"]
    rows = table.to_pylist()
    assert all(len(row["input_ids"]) == 64 for row in rows)
    assert sum(sum(row["seq_lens"]) for row in rows) == file.about["tokens"]


def test_what_is_no_file_of_rows_is_refused(tmp_path: Path) -> None:
    other, text = tmp_path / "other.parquet", tmp_path / "text.parquet"
    pq.write_table(pa.table({"text": ["x"]}), other)
    text.write_text("no Parquet")
    with pytest.raises(DataFileError, match="holds no packed rows; make it with"):
        PackedFile.open(other)
    with pytest.raises(DataFileError, match="cannot be read as Parquet"):
        PackedFile.open(text)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("input_ids", [1, 2], "row 0 is damaged: it has 2 ids where 8 from 0 on belong"),
        ("input_ids", [-1] * 8, "row 0 is damaged"),
        ("seq_lens", [9], "pieces of 9 tokens do not fit a row of 8"),
        ("seq_lens", [2, 2], "row 0 is damaged"),
        ("documents", [-4], "a piece of document -4"),
    ],
)
def test_damaged_rows_are_located(tmp_path: Path, column: str, value: list[int], said: str) -> None:
    path = tmp_path / "rows.parquet"
    with row_file.row_file(path, 8) as rows:
        for row in pack([[1, 2, 3]], 8):
            rows.add(row)
        rows.describe({"length": 8, "left": False, "multiple": 1})
    table = pq.read_table(path)
    values = [value if name == column else table[name][0].as_py() for name in table.column_names]
    said_of_rows = {row_file.KEY: pq.read_metadata(path).metadata[row_file.KEY.encode()]}
    damaged = pa.table([[v] for v in values], schema=table.schema.with_metadata(said_of_rows))
    pq.write_table(damaged, path)
    with pytest.raises(DataFileError, match=said):
        list(PackedFile.open(path).rows())


def test_ranks_and_rows_that_are_not_there_are_refused(folder: Path, tiny_tokenizer: Tiny) -> None:
    _texts(folder)
    file = _packed(folder, tiny_tokenizer("bare"))
    with pytest.raises(UsageError, match="rank 2 of 2"):
        file.rows(rank=2, ranks=2)
    with pytest.raises(UsageError, match=r"row 9999 is not in"):
        file.rows(9999)


def test_an_error_while_rows_are_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_text("old")

    def failing() -> Iterator[list[int]]:
        yield from ([1] * 5 for _ in range(200))
        yield [-1]

    def write() -> None:
        with row_file.row_file(path, 8) as rows:
            for row in pack(failing(), 8):
                rows.add(row)

    with pytest.raises(UsageError, match="document 200"):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_words_for_boundaries_and_policies(tiny_tokenizer: Tiny) -> None:
    bos = tiny_tokenizer("bos")
    assert boundary_named("eos", bos) == Boundary(after=1)
    assert boundary_named("bos", bos) == Boundary(before=0)
    assert boundary_named("both", bos) == Boundary(0, 1)
    assert boundary_named("none", bos) == Boundary()
    assert boundary_named("17", bos) == Boundary(after=17)
    for word, said in (("full stop", "'full stop' is not known"), ("99999", "ids are 0 to")):
        with pytest.raises(UsageError, match=said):
            boundary_named(word, bos)
    bare = tiny_tokenizer("bare")
    if bare.eos_token_id is None:
        with pytest.raises(UsageError, match="no EOS token"):
            boundary_named("eos", bare)
    # What is open is bounded in tokens, whatever the length.
    assert policy_named("best-fit", 4096) == BestFit(1024)
    assert policy_named("best-fit", 131_072) == BestFit(128)
    with pytest.raises(UsageError, match="'worst-fit'"):
        policy_named("worst-fit", 8)


def test_rows_hold_copies_that_a_reused_buffer_does_not_change() -> None:
    buffer = np.zeros(3, dtype=np.int32)

    def stream() -> Iterator[Any]:
        for value in (5, 6, 7):
            buffer[:] = value
            yield buffer

    (row,) = pack(stream(), 9)
    assert row.token_ids.tolist() == [5, 5, 5, 6, 6, 6, 7, 7, 7]
