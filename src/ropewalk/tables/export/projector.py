"""A table as the three files of TensorBoard's embedding projector.

`tensors.bytes` holds float32 rows, `metadata.tsv` a line for each with a header (several columns
have one, a single column must have none), `projector_config.pbtxt` names both. Labels are in
their display form, in which no tab, line end or blank at an end is left as it is. TensorBoard
takes a tensor file for text where its bytes happen to be UTF-8, as zeros are; `tensors.tsv` is
written then.
"""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.errors import StoreError
from ropewalk.files import folder_beside
from ropewalk.tables.export.rows import ExportedFile, Finite, stretches

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable

COLUMNS = ("label", "token_id", "kind", "norm")
SHOWN = 100_000
"""Points that the projector asks for at most: the first ones."""


def write_projector(table: EmbeddingTable, folder: Path, rows: Finite, rule: str) -> ExportedFile:
    """Write the folder; `rule` says how its rows were chosen.

    Raises StoreError where it cannot be written, or where its lines do not come out as many as
    its rows.
    """
    with folder_beside(folder) as beside:
        tensors = _write_tensors(table, beside, rows)
        _write_metadata(table, beside / "metadata.tsv", rows)
        config = (
            "embeddings {\n"
            f"  tensor_name: {_quoted(table.name)}\n"
            f'  tensor_path: "{tensors}"\n'
            f"  tensor_shape: {len(rows.ids)}\n"
            f"  tensor_shape: {table.width}\n"
            '  metadata_path: "metadata.tsv"\n'
            "}\n"
        )
        (beside / "projector_config.pbtxt").write_text(config, encoding="utf-8")
        _verify(beside, tensors, len(rows.ids), table.width)
        size = sum(path.stat().st_size for path in beside.iterdir())
    said = [rule, *rows.said]
    if len(rows.ids) > SHOWN:
        said.append(
            f"TensorBoard shows the first {SHOWN:,} rows of a file; a sample of so many (--sample) "
            "shows rows from the whole table"
        )
    return ExportedFile(folder, size, len(rows.ids), tuple(said))


def _write_tensors(table: EmbeddingTable, folder: Path, rows: Finite) -> str:
    """Write float32 rows; returns the file's name."""
    utf8 = codecs.getincrementaldecoder("utf-8")()
    text = True
    with (folder / "tensors.bytes").open("wb") as file:
        for _, own in stretches(table, rows.ids):
            raw = own.float().contiguous().numpy().astype("<f4").tobytes()
            file.write(raw)
            if text:
                try:
                    utf8.decode(raw)
                except UnicodeDecodeError:
                    text = False
    if text and not utf8.getstate()[0]:
        (folder / "tensors.bytes").unlink()
        with (folder / "tensors.tsv").open("w", encoding="ascii", newline="") as file:
            for _, own in stretches(table, rows.ids):
                for row in own.float().tolist():
                    file.write("\t".join(f"{number:.9g}" for number in row) + "\n")
        return "tensors.tsv"
    return "tensors.bytes"


def _write_metadata(table: EmbeddingTable, path: Path, rows: Finite) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("\t".join(COLUMNS) + "\n")
        for row, norm in zip(rows.ids.tolist(), rows.norms.tolist(), strict=True):
            label = escaped(table.label(row))
            file.write(f"{label}\t{row}\t{table.kind(row)}\t{norm:.6g}\n")


def escaped(label: str) -> str:
    """A label without what ends a field or a line for any reader of TSV."""
    return "".join(
        f"<0x{ord(c):02X}>" if c in "\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029" else c for c in label
    )


def _verify(folder: Path, tensors: str, rows: int, width: int) -> None:
    """Count what was written. Raises StoreError where lines, fields or bytes are not as many."""
    with (folder / "metadata.tsv").open(encoding="utf-8", newline="") as file:
        lines = 0
        for lines, line in enumerate(file, 1):
            if line.count("\t") != len(COLUMNS) - 1:
                raise StoreError(
                    f"line {lines} of metadata.tsv has {line.count(chr(9)) + 1} fields"
                )
    size = (folder / tensors).stat().st_size
    if lines != rows + 1 or (tensors == "tensors.bytes" and size != 4 * rows * width):
        raise StoreError(
            f"metadata.tsv came out with {lines - 1} lines and {tensors} with {size} bytes for "
            f"{rows} rows of {width}; nothing was kept"
        )


def _quoted(text: str) -> str:
    """A string as protobuf's text format reads it."""
    shown = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:03o}" for b in text.encode()
    )
    return f'"{"".join(shown)}"'
