from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ropewalk.errors import ModelFileError, RopewalkError, UsageError
from ropewalk.tables.open import open_table, open_tables

ROWS = np.arange(12.0).reshape(4, 3)


class Dangerous:
    """What a pickle can do to its reader."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_rows_of_an_npy_file(tmp_path: Path, dtype: str, version: tuple[int, int]) -> None:
    path = tmp_path / "table.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, ROWS.astype(dtype), version=version)
    table = open_table(path)
    assert np.array_equal(table[[3, 1]].numpy(), ROWS[[3, 1]].astype(dtype))
    assert table.bytes_read == 6 * np.dtype(dtype).itemsize
    assert np.array_equal(table.whole().numpy(), ROWS.astype(dtype))
    assert table.name == "table.npy"


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no npy file"),
        (b"\x93NUMPY\x01\x00", "no npy file"),
        (npy(ROWS)[:-1], r"shape \(4, 3\) ends at byte 224, and the file has 223"),
        (npy(np.asfortranarray(ROWS)), "stored column by column"),
        (npy(np.arange(4)), "holds int64"),
        (npy(ROWS.astype(">f4")), "little-endian"),
        (npy(np.array([{}, 1], dtype=object)), "pickled and could run code"),
    ],
)
def test_an_npy_file_that_is_no_table_of_floats(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "table.npy"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"table\.npy.*{said}"):
        open_table(path)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_state_dict_is_read_by_rows(tmp_path: Path, zipped: bool, wrapped: bool) -> None:
    rows = torch.from_numpy(ROWS).to(torch.bfloat16)
    held: Any = OrderedDict({"wte.weight": rows, "step": 3})
    path = tmp_path / "pytorch_model.bin"
    torch.save(
        {"state_dict": held, "epoch": 1} if wrapped else held,
        path,
        _use_new_zipfile_serialization=zipped,
    )
    table = open_table(path)
    assert table.name == ("state_dict.wte.weight" if wrapped else "wte.weight")
    assert torch.equal(table[[2, 0]], rows[[2, 0]])
    assert (table.bytes_read, table.storage) == (2 * 3 * 2, "BF16")
    # A file of the old kind cannot be mapped, and was read from end to end.
    assert table.matrix.reads.header == (0 if zipped else path.stat().st_size)
    for way in ("mmap", "stream"):
        assert torch.equal(table.whole(way), rows)


def test_shards_of_torch_files_open_one(tmp_path: Path) -> None:
    torch.save({"wte.weight": torch.from_numpy(ROWS)}, tmp_path / "a.bin")
    index = {"weight_map": {"wte.weight": "a.bin", "lm_head.weight": "b.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    tables = open_tables(tmp_path)
    assert tables.table().shape == (4, 3)
    with pytest.raises(
        ModelFileError, match=r"'lm_head\.weight' is in b\.bin, which is not there; fetch"
    ):
        tables.table("output")


@pytest.mark.parametrize("name", ["model.bin", "model.pt", "table.pkl", "table.npy"])
def test_pickles_are_refused_with_the_reason_and_their_code_never_runs(
    tmp_path: Path, name: str
) -> None:
    mark = tmp_path / "ran"
    path = tmp_path / name
    danger = {"wte.weight": Dangerous(mark)}
    if name == "model.bin":
        torch.save(danger, path)
    elif name == "table.npy":
        path.write_bytes(npy(np.array([Dangerous(mark)], dtype=object)))
    else:
        path.write_bytes(pickle.dumps(danger))
    with pytest.raises(ModelFileError, match=r"(code in a pickle is never run|could run code)"):
        open_table(path)
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02.", b"nonsense"])
def test_a_damaged_torch_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model\.bin"):
        open_table(path)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, 400), byte=st.integers(0, 255), zipped=st.booleans())
def test_no_damage_ends_in_anything_but_an_error_of_ours(
    tmp_path: Path, at: int, byte: int, zipped: bool
) -> None:
    path = tmp_path / "model.bin"
    out = io.BytesIO()
    held = {"wte.weight": torch.from_numpy(ROWS)}
    torch.save(held, out, _use_new_zipfile_serialization=zipped)
    whole = bytearray(out.getvalue())
    whole[at] = byte
    for content in (whole, whole[:at]):
        path.write_bytes(content)
        try:
            assert open_table(path).whole("stream").numel()
        except RopewalkError as error:
            assert str(error)  # noqa: PT017 - that it is one of ours is the test


def test_a_torch_file_without_tables_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    torch.save([1, 2], path)
    with pytest.raises(ModelFileError, match="holds no named tensors"):
        open_table(path)
    torch.save({"wte.weight": torch.arange(6).view(2, 3)}, path)
    with pytest.raises(UsageError, match=r"holds torch\.int64, no floats"):
        open_table(path)


def test_files_that_hold_no_tables_are_said_to(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"")
    (tmp_path / "b.npy").write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"2 files that may hold the table, such as a\.pt, b"):
        open_table(tmp_path)
    (tmp_path / "c.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(ModelFileError, match=r"c\.npz is no npz archive"):
        open_table(tmp_path / "c.npz")


MORE_ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_one_array_is_the_table_and_only_the_rows_asked_for_are_read(
    tmp_path: Path, dtype: str
) -> None:
    rows = MORE_ROWS.astype(dtype)
    table = open_table(saved(tmp_path / "rows.npz", vectors=rows))
    assert (table.name, table.shape) == ("vectors", (6, 4))
    assert np.array_equal(table[[4, 1]].numpy(), rows[[4, 1]])
    assert table.bytes_read == 2 * 4 * rows.itemsize
    assert np.array_equal(table.whole().numpy(), rows)
    pages = table.pages()
    assert pages is not None
    assert np.array_equal(pages, rows)


def test_of_several_arrays_one_is_named_and_none_is_guessed(tmp_path: Path) -> None:
    words = np.array(["cat", "dog"])
    path = saved(tmp_path / "rows.npz", one=MORE_ROWS, two=MORE_ROWS + 1, words=words)
    # The shapes of those that may be it are told.
    with pytest.raises(UsageError, match=r"one \(6 x 4\), two \(6 x 4\). Choose one with"):
        open_table(path)
    assert np.array_equal(open_table(path, tensor="two").whole().numpy(), MORE_ROWS + 1)
    with pytest.raises(
        UsageError, match="has no tensor 'three'; it has 3, such as one, two, words"
    ):
        open_table(path, tensor="three")


def test_what_cannot_be_read_by_rows_is_refused_with_what_to_do(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "small.npz", rows=MORE_ROWS)
    with pytest.raises(ModelFileError, match=r"'rows' is compressed, .* again with numpy\.savez,"):
        open_table(tmp_path / "small.npz")
    with pytest.raises(ModelFileError, match="'rows' is stored column by column"):
        open_table(saved(tmp_path / "columns.npz", rows=np.asfortranarray(MORE_ROWS)))
    with pytest.raises(ModelFileError, match="'words' holds <U3; little-endian float64"):
        open_table(saved(tmp_path / "words.npz", words=np.array([["cat", "dog"]])))
    danger = np.array([[object()]], dtype=object)
    np.savez(tmp_path / "objects.npz", rows=danger)
    with pytest.raises(ModelFileError, match=r"'rows' holds Python objects.*could run code"):
        open_table(tmp_path / "objects.npz")
    with zipfile.ZipFile(tmp_path / "none.npz", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(ModelFileError, match="holds no array"):
        open_table(tmp_path / "none.npz")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, 460), byte=st.integers(0, 255))
@example(at=118, byte=0)  # the tokenizer that numpy's reader falls back on ends within a statement
@example(at=121, byte=ord("-"))  # a shape of (-6, 4)
def test_no_damage_to_an_archive_ends_in_anything_but_an_error_of_ours(
    tmp_path: Path, at: int, byte: int
) -> None:
    path = saved(tmp_path / "rows.npz", rows=MORE_ROWS)
    whole = bytearray(path.read_bytes())
    at = min(at, len(whole) - 1)
    whole[at] = byte
    for content in (whole, whole[:at]):
        path.write_bytes(content)
        try:
            assert open_table(path).whole("stream").numel()
        except RopewalkError as error:
            assert str(error)  # noqa: PT017 - that it is one of ours is the test
