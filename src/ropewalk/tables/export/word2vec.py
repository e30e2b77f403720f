"""A table in word2vec's text format, whose keys end at a space: refused where one holds a blank.

The first line gives rows and width, each further one a key and its numbers. Readers split lines
at spaces, so that a key with a blank in it, most keys of a byte-level vocabulary among them,
could be written and never read again.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.files import written_beside
from ropewalk.tables.display import display
from ropewalk.tables.export.rows import Finite, Written, stretches

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable


def write_word2vec(table: EmbeddingTable, path: Path, rows: Finite, rule: str) -> Written:
    """Write the rows, nine digits a number, which gives every float32 back.

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
    return Written(path, size, len(keys), (rule, *rows.said))


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
