"""Documents as text, out of text files, JSON lines, Parquet and folders of them.

A text file is one document and is read in parts, however long it is. A record of JSON lines or of
Parquet is one document and is held whole. Nothing is skipped or repaired: what cannot be read is
an error with its file and its place.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ropewalk.errors import DataFileError, UsageError
from ropewalk.packing.row_file import arrow
from ropewalk.short import short

PART = 1 << 18
"""Bytes of a text file that are read at a time."""

LONGEST_LINE = 1 << 28
"""Bytes of a line of JSON; a longer one is refused, for it would have to be held whole."""

_TEXT = {".txt", ".text", ".md", ".rst"}
_LINES = {".jsonl", ".ndjson"}
_PARQUET = {".parquet"}
_PACKED_AWAY = {".gz", ".zst", ".xz", ".bz2", ".zip", ".tar"}


@short
@dataclass(frozen=True, slots=True)
class Text:
    """One document: where it came from, and its text in parts (of any size, in order).

    The parts of a text file are read as they are taken, before the next document is asked for.
    """

    where: str
    parts: Iterator[str]


@short
@dataclass(frozen=True, slots=True)
class Reading:
    """How files become texts: the field of a JSON record, the column of Parquet, the encoding.

    Raises UsageError for an encoding that Python does not have.
    """

    field: str = "text"
    column: str = "text"
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        try:
            known = codecs.lookup(self.encoding)
        except LookupError as error:
            raise UsageError(
                f"the encoding {self.encoding!r} is not known; give one that Python has, such as "
                "utf-8, utf-16, latin-1 or cp1252"
            ) from error
        if not known._is_text_encoding:
            raise UsageError(f"{self.encoding!r} is no encoding of text")


@short
@dataclass(frozen=True, slots=True)
class Sources:
    """The files that are read, in order, and what lay in folders beside them and is not text."""

    files: tuple[Path, ...]
    left_out: tuple[Path, ...] = ()


def sources(paths: Sequence[Path]) -> Sources:
    """The files of `paths`; folders are searched, in the order of names, hidden files left out.

    Raises UsageError for no path, a path that is not there, a folder without a file of text, and
    a file that is named twice; DataFileError for what is neither file nor folder.
    """
    if not paths:
        raise UsageError("no file is named: give text files, JSON lines, Parquet, or folders")
    files: list[Path] = []
    left_out: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = [p for p in sorted(path.rglob("*")) if p.is_file() and not _hidden(p, path)]
            texts = [p for p in found if p.suffix.lower() in _TEXT | _LINES | _PARQUET]
            if not texts:
                raise UsageError(
                    f"the folder {path} has no file that is read: "
                    f"{', '.join(sorted(_TEXT | _LINES | _PARQUET))}"
                )
            files += texts
            left_out += [p for p in found if p not in set(texts)]
        elif path.is_file():
            _check_named(path)
            files.append(path)
        elif path.exists():
            raise DataFileError(f"{path} is neither a file nor a folder")
        else:
            raise UsageError(f"there is no file {path}")
    seen: set[Path] = set()
    for file in files:
        resolved = file.resolve()
        if resolved in seen:
            raise UsageError(f"{file} is named twice; its documents would be packed twice")
        seen.add(resolved)
    return Sources(tuple(files), tuple(left_out))


def read_texts(files: Iterable[Path], reading: Reading | None = None) -> Iterator[Text]:
    """The documents of `files`, in order.

    By their suffix: .jsonl and .ndjson are JSON lines, .parquet is Parquet, all else is text. A
    field or cell that is null is an empty document; blank lines between JSON records are none.

    Raises DataFileError with file and place for what cannot be read: bytes that are not of the
    encoding, a line that is no JSON object or lacks the field, a column that is not there or holds
    no text. MissingPartError for Parquet without pyarrow.
    """
    reading = reading or Reading()
    for file in files:
        suffix = file.suffix.lower()
        if suffix in _LINES:
            yield from _json_lines(file, reading)
        elif suffix in _PARQUET:
            yield from _parquet(file, reading)
        else:
            yield Text(str(file), _decoded(file, reading))


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _check_named(path: Path) -> None:
    """Refuse by name what would be read as text and is none."""
    suffix = path.suffix.lower()
    if suffix in _PACKED_AWAY:
        raise UsageError(f"{path} is compressed; unpack it first")
    if suffix == ".json":
        raise UsageError(
            f"{path} is one JSON document; only JSON lines are read, a record a line: write them "
            "into a .jsonl file"
        )


def _open(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: OSError) -> DataFileError:
    return DataFileError(f"{file} cannot be read: {error.strerror or error}")


def _codec(encoding: str) -> str:
    """A byte order mark before UTF-8 is no text."""
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _undecodable(
    file: Path, encoding: str, at: int, error: UnicodeError, line: int | None = None
) -> DataFileError:
    found = ""
    if isinstance(error, UnicodeDecodeError) and error.start < len(error.object):
        found = f" (0x{error.object[error.start]:02x})"
    place = f"byte {at:,}" if line is None else f"line {line:,}, byte {at:,} of the file"
    return DataFileError(
        f"{file} is not {encoding} at {place}{found}; name the encoding of the file with "
        "--encoding, or repair it there"
    )


def _decoded(file: Path, reading: Reading) -> Iterator[str]:
    """A text file in parts; its line ends stay as they are."""
    decoder = codecs.getincrementaldecoder(_codec(reading.encoding))()
    read = 0
    with _open(file) as handle:
        while True:
            try:
                chunk = handle.read(PART)
            except OSError as error:
                raise _unreadable(file, error) from error
            pending = decoder.getstate()[0]
            try:
                part = decoder.decode(chunk, final=not chunk)
            except UnicodeError as error:
                start = error.start if isinstance(error, UnicodeDecodeError) else 0
                at = read - len(pending) + start
                raise _undecodable(file, reading.encoding, at, error) from error
            read += len(chunk)
            if part:
                yield part
            if not chunk:
                return


def _json_lines(file: Path, reading: Reading) -> Iterator[Text]:
    codec = _codec(reading.encoding)
    if "\n".encode(reading.encoding) != b"\n":
        raise UsageError(
            f"{file}: JSON lines in {reading.encoding} cannot be told apart; convert the file to "
            "utf-8"
        )
    begin = number = 0
    with _open(file) as handle:
        while True:
            try:
                line = handle.readline(LONGEST_LINE + 1)
            except OSError as error:
                raise _unreadable(file, error) from error
            if not line:
                return
            number += 1
            if len(line) > LONGEST_LINE:
                raise DataFileError(
                    f"{file}, line {number:,}: a record of more than {LONGEST_LINE:,} bytes; give "
                    "so long a document as a text file, which is read piece by piece"
                )
            if line.strip():
                try:
                    text = line.rstrip().decode(codec if begin == 0 else reading.encoding)
                except UnicodeDecodeError as error:
                    at = begin + error.start
                    raise _undecodable(file, reading.encoding, at, error, number) from error
                where = f"{file}, line {number:,}"
                yield Text(where, iter((_field(text, reading.field, where),)))
            begin += len(line)


def _field(line: str, field: str, where: str) -> str:
    """The text of one record."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataFileError(
            f"{where}, column {error.colno:,}: not JSON ({error.msg}); each line must be one "
            "JSON object"
        ) from error
    except RecursionError as error:
        raise DataFileError(f"{where}: JSON that is nested too deeply to be read") from error
    except ValueError as error:
        # An integer of more digits than Python reads.
        raise DataFileError(f"{where}: JSON that cannot be read ({error})") from error
    if not isinstance(record, dict):
        raise DataFileError(
            f"{where}: a JSON {type(record).__name__}; each line must be one JSON object"
        )
    if field not in record:
        known = ", ".join(sorted(record)[:12]) or "nothing"
        raise DataFileError(
            f"{where}: no field {field!r}; the record has {known}; name one with --field"
        )
    return _text(record[field], where)


def _text(value: object, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataFileError(f"{where}: the text is a {type(value).__name__}, and no string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataFileError(
                f"{where}: half of a surrogate pair at character {error.start:,} of the text, "
                "which no encoding holds"
            ) from error
    return value


def _parquet(file: Path, reading: Reading) -> Iterator[Text]:
    pa, pq = arrow()
    try:
        with pq.ParquetFile(file) as opened:
            _check_column(opened.schema_arrow, reading.column, file)
            row = 0
            for batch in opened.iter_batches(batch_size=64, columns=[reading.column]):
                for cell in batch.column(0):
                    where = f"{file}, row {row:,}"
                    yield Text(where, iter((_cell(cell, where),)))
                    row += 1
    except OSError as error:
        raise _unreadable(file, error) from error
    except pa.ArrowException as error:
        raise DataFileError(f"{file} is no Parquet file that can be read: {error}") from error


def _check_column(schema: Any, column: str, file: Path) -> None:
    pa, _ = arrow()
    if column not in schema.names:
        known = ", ".join(schema.names[:12]) or "none"
        raise DataFileError(
            f"{file} has no column {column!r}; its columns are {known}; name one with --column"
        )
    kind = schema.field(column).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataFileError(f"{file}: the column {column!r} holds {kind}, and no text")


def _cell(cell: Any, where: str) -> str:
    try:
        return _text(cell.as_py(), where)
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{where}: not UTF-8 at byte {error.start:,} of the text, which Parquet asks for"
        ) from error
