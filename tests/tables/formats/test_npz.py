"""npz: what numpy.savez stored is read row by row; of several arrays none is guessed."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ropewalk.errors import ModelFileError, RopewalkError, UsageError
from ropewalk.tables.open import open_table

ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_one_array_is_the_table_and_only_the_rows_asked_for_are_read(
    tmp_path: Path, dtype: str
) -> None:
    rows = ROWS.astype(dtype)
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
    path = saved(tmp_path / "rows.npz", one=ROWS, two=ROWS + 1, words=words)
    # The shapes of those that may be it are told.
    with pytest.raises(UsageError, match=r"one \(6 x 4\), two \(6 x 4\). Choose one with"):
        open_table(path)
    assert np.array_equal(open_table(path, tensor="two").whole().numpy(), ROWS + 1)
    with pytest.raises(
        UsageError, match="has no tensor 'three'; it has 3, such as one, two, words"
    ):
        open_table(path, tensor="three")


def test_what_cannot_be_read_by_rows_is_refused_with_what_to_do(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "small.npz", rows=ROWS)
    with pytest.raises(ModelFileError, match=r"'rows' is compressed, .* again with numpy\.savez,"):
        open_table(tmp_path / "small.npz")
    with pytest.raises(ModelFileError, match="'rows' is stored column by column"):
        open_table(saved(tmp_path / "columns.npz", rows=np.asfortranarray(ROWS)))
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
def test_no_damage_ends_in_anything_but_an_error_of_ours(
    tmp_path: Path, at: int, byte: int
) -> None:
    path = saved(tmp_path / "rows.npz", rows=ROWS)
    whole = bytearray(path.read_bytes())
    at = min(at, len(whole) - 1)
    whole[at] = byte
    for content in (whole, whole[:at]):
        path.write_bytes(content)
        try:
            assert open_table(path).whole("stream").numel()
        except RopewalkError as error:
            assert str(error)  # noqa: PT017 - that it is one of ours is the test
