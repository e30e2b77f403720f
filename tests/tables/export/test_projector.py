"""The projector's files, read by the rules that TensorBoard reads them by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from ropewalk.errors import StoreError
from ropewalk.tables.export.projector import escaped, write_projector
from ropewalk.tables.export.rows import ExportedFile, finite
from ropewalk.tables.open import EmbeddingTable
from ropewalk.tables.sample import choose_rows

MakeTable = Callable[..., EmbeddingTable]


def _write(table: EmbeddingTable, folder: Path, most: int | None = None) -> ExportedFile:
    chosen = choose_rows(table, most, seed=4)
    return write_projector(table, folder, finite(table, chosen), chosen.line)


def _server_lines(path: Path) -> list[str]:
    """As the server and then the page take lines: text mode, and split at line feeds."""
    return path.read_text(encoding="utf-8").split("\n")


def _server_tensor(folder: Path, shape: tuple[int, int]) -> np.ndarray:
    """As projector_plugin.py reads a tensor: as text, and only where that fails as float32."""
    path = next(p for p in folder.iterdir() if p.name.startswith("tensors"))
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
        return np.array([list(map(float, line.split("\t"))) for line in lines if line], "float32")
    except UnicodeDecodeError:
        return np.fromfile(path, dtype="float32").reshape(shape)


def test_lines_are_as_many_as_rows_whatever_names_hold(
    hostile: EmbeddingTable, tmp_path: Path
) -> None:
    written = _write(hostile, tmp_path / "out")
    lines = _server_lines(tmp_path / "out" / "metadata.tsv")
    assert lines.pop() == ""
    # Several columns: the first line is a header.
    assert lines[0] == "label\ttoken_id\tkind\tnorm"
    fields = [line.split("\t") for line in lines[1:]]
    assert [len(f) for f in fields] == [4] * 10
    assert [f[1] for f in fields] == [str(i) for i in range(10)]
    labels = [f[0] for f in fields]
    assert len({label.strip() for label in labels}) == 10
    assert labels[:5] == ["cat", "a<0x09>b", "line<0x0A>end", "<0x0D>", "␣the"]
    assert len("".join(lines).splitlines()) == 1
    np.testing.assert_array_equal(_server_tensor(tmp_path / "out", (10, 4)), hostile.whole())
    assert written.rows == 10


def test_the_configuration_names_both_files_and_the_shape(
    hostile: EmbeddingTable, tmp_path: Path
) -> None:
    _write(hostile, tmp_path / "out")
    config = (tmp_path / "out" / "projector_config.pbtxt").read_text()
    assert config == (
        'embeddings {\n  tensor_name: "embed_tokens.weight"\n  tensor_path: "tensors.bytes"\n'
        '  tensor_shape: 10\n  tensor_shape: 4\n  metadata_path: "metadata.tsv"\n}\n'
    )


def test_rows_whose_bytes_would_pass_for_text_are_written_as_text(
    make_table: MakeTable, tmp_path: Path
) -> None:
    rows = torch.zeros(3, 4)
    _write(make_table(["a", "b", "c"], rows), tmp_path / "out")
    assert not (tmp_path / "out" / "tensors.bytes").exists()
    np.testing.assert_array_equal(_server_tensor(tmp_path / "out", (3, 4)), rows)
    assert '"tensors.tsv"' in (tmp_path / "out" / "projector_config.pbtxt").read_text()


def test_samples_and_rows_left_out_are_said(make_table: MakeTable, tmp_path: Path) -> None:
    rows = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    rows[3] = torch.inf
    table = make_table([f"w{i}" for i in range(40)], rows)
    written = _write(table, tmp_path / "all")
    assert written.rows == 39
    assert "rows 3" in " ".join(written.said)
    sampled = _write(table, tmp_path / "some", most=8)
    assert sampled.said[0] == "8 of 40 rows, drawn without preference, none twice, seed 4"
    lines = _server_lines(tmp_path / "some" / "metadata.tsv")[1:-1]
    ids = [int(line.split("\t")[1]) for line in lines]
    np.testing.assert_array_equal(_server_tensor(tmp_path / "some", (len(ids), 4)), rows[ids])


def test_a_folder_with_something_in_it_is_left_alone(
    hostile: EmbeddingTable, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(StoreError, match="cannot be written"):
        _write(hostile, tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_what_ends_a_line_for_any_reader_is_escaped() -> None:
    assert escaped("a\u2028b\x85c\td") == "a<0x2028>b<0x85>c<0x09>d"
