"""A table as a bare array (npy, safetensors, with row number as token id), and as word2vec's text.

In word2vec's text format the first line gives rows and width, each further one a key and its
numbers. Readers split lines at spaces, so that a key with a blank in it, most keys of a byte-level
vocabulary among them, could be written and never read again: such tables are refused.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.files import written_beside
from ropewalk.tables.export.rows import ExportedFile, Finite, provenance, stretches
from ropewalk.tables.sample import RowSample
from ropewalk.tables.vocabulary import display

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

TOKEN_IDS = "token_ids"  # noqa: S105
"""The tensor in a safetensors file of sampled rows that says which rows they are."""


def write_npy(table: EmbeddingTable, path: Path) -> ExportedFile:
    """Write every row, in the dtype it is handed out in; npy has no bfloat16, which widens.

    Raises StoreError where the file cannot be written.
    """
    import numpy as np
    import torch

    # An empty tensor gives numpy's name of a dtype.
    wide = table.dtype == torch.bfloat16
    kind = torch.empty(0, dtype=torch.float32 if wide else table.dtype).numpy().dtype
    with written_beside(path) as beside:
        with beside.open("wb") as file:
            header = {
                "descr": np.lib.format.dtype_to_descr(kind.newbyteorder("<")),
                "fortran_order": False,
                "shape": table.shape,
            }
            np.lib.format.write_array_header_1_0(file, header)
            for _, rows in table.tiles():
                held = rows.float() if wide else rows
                file.write(held.contiguous().numpy().astype(kind.newbyteorder("<")).tobytes())
        size = beside.stat().st_size
    said = [f"all {table.rows:,} rows, row number is id"]
    if wide:
        said.append("bfloat16 widened to float32, which npy can hold: no number changes")
    return ExportedFile(path, size, table.rows, tuple(said))


def write_safetensors(
    table: EmbeddingTable, path: Path, chosen: RowSample | None = None
) -> ExportedFile:
    """Write every row under the tensor's own name, or a sample with its ids beside it.

    Rows keep their dtype, bfloat16 too; quantised rows become float32. The file's metadata says
    where they came from. Raises UsageError for a dtype that the format lacks, StoreError where
    the file cannot be written.
    """
    import torch

    names = {
        torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    }  # fmt: skip
    if table.dtype not in names:
        raise UsageError(
            f"{table.name} is of {table.dtype}, which is none of {', '.join(names.values())}"
        )
    sampled = chosen is not None and chosen.seed is not None
    ids = chosen.ids if chosen is not None and sampled else torch.arange(table.rows)
    rule = chosen.line if chosen is not None and sampled else f"all {table.rows:,} rows"
    size = len(ids) * table.width * table.dtype.itemsize
    tensors: dict[str, object] = {
        table.name: {
            "dtype": names[table.dtype],
            "shape": [len(ids), table.width],
            "data_offsets": [0, size],
        }
    }
    if sampled:
        name = TOKEN_IDS if table.name != TOKEN_IDS else f"{TOKEN_IDS}_of_rows"
        offsets = [size, size + 8 * len(ids)]
        tensors[name] = {"dtype": "I64", "shape": [len(ids)], "data_offsets": offsets}
    header = json.dumps({"__metadata__": provenance(table, rule), **tensors}).encode()
    header += b" " * (-len(header) % 8)
    with written_beside(path) as beside:
        with beside.open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for _, rows in stretches(table, ids):
                _write(file, rows)
            if sampled:
                _write(file, ids)
        written = beside.stat().st_size
    return ExportedFile(path, written, len(ids), (rule,))


def _write(file: IO[bytes], tensor: Tensor) -> None:
    """The bytes of a tensor, little-endian as every machine that torch runs on."""
    import torch

    file.write(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def write_word2vec(table: EmbeddingTable, path: Path, rows: Finite, rule: str) -> ExportedFile:
    """Write the rows, nine digits per number, which gives every float32 back.

    Raises UsageError, before anything is written, for a table without a vocabulary and for a key
    that the format cannot hold, naming the first; StoreError where the file cannot be written.
    """
    keys = _keys(table, rows.ids.tolist())
    pattern = " ".join(["%.9g"] * table.width)
    with written_beside(path) as beside:
        with beside.open("w", encoding="utf-8", newline="") as file:
            file.write(f"{len(keys)} {table.width}\n")
            at = 0
            for _, own in stretches(table, rows.ids):
                for row in own.float().tolist():
                    file.write(f"{keys[at]} {pattern % tuple(row)}\n")
                    at += 1
        size = beside.stat().st_size
    return ExportedFile(path, size, len(keys), (rule, *rows.said))


def _keys(table: EmbeddingTable, ids: list[int]) -> list[str]:
    """The key of each row as text. Raises UsageError that names the first that cannot be one."""
    words = table.vocabulary
    if words is None:
        raise UsageError(
            f"{table.name} comes without a vocabulary, and word2vec's format is keyed by words; "
            "npy and safetensors need none"
        )
    keys: list[str] = []
    seen: dict[str, int] = {}
    for row in ids:
        token = words.token(row)
        wrong, key = "", ""
        if token is None:
            wrong = "has no token"
        else:
            try:
                key = token.key.decode("utf-8")
            except UnicodeDecodeError:
                wrong = "is no text in UTF-8"
            else:
                wrong = _wrong(key)
        if not wrong and key in seen:
            wrong = f"is also that of row {seen[key]}"
        if wrong:
            shown = "" if token is None else f" ({display(token.key) or 'an empty key'})"
            raise UsageError(
                f"word2vec's text format cannot hold row {row}{shown}: its key {wrong}; nothing "
                "was written. Parquet and the projector's files can hold every key"
            )
        seen[key] = row
        keys.append(key)
    return keys


def _wrong(key: str) -> str:
    if not key:
        return "is empty"
    if any(c.isspace() or unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in key):
        return "holds a blank or a control character, at which readers split a line"
    return ""
