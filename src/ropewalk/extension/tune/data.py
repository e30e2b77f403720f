"""Rows to train on, step by step, the same for the same data, seed and step number.

Each length of the mix has a stream of its own over all documents. A stream reads the data again
and again; its rows come out of a small buffer in an order drawn from the seed. Where a run stands
is how many rows of each stream it has taken: going on reads them again and leaves them out, so
that there is no state to be lost. Every process reads all rows of a step and trains on its share,
so that all know how many tokens the step has.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ropewalk.errors import DataFileError, LengthError, UsageError
from ropewalk.extension.tune.training_settings import Mix
from ropewalk.packing.files import policy_named
from ropewalk.packing.pack import (
    Boundary,
    Cutting,
    Document,
    PackedRow,
    Packing,
    Report,
    pack,
)
from ropewalk.packing.read import PackedFile
from ropewalk.packing.table_rows import has_rowless
from ropewalk.packing.texts import Reading, Sources, read_texts
from ropewalk.packing.tokens import Encoder
from ropewalk.short import short

BUFFER_TOKENS = 1 << 20
"""Tokens of the rows among which the next one is drawn, at most."""
BUFFER_ROWS = 256


class DataFile(Protocol):
    """Rows of one length, from the beginning of the data to its end."""

    def rows(self, length: int) -> Iterator[PackedRow]:
        """One reading of all data."""


@short
@dataclass
class Documents:
    """Documents that are packed as they are read: `read()` begins again from the first.

    `reports[length]` is what the last whole reading at that length came to.
    """

    read: Callable[[], Iterable[Document]]
    cutting: Cutting = "kept"
    boundary: Boundary = field(default_factory=Boundary)
    padding_id: int = 0
    reports: dict[int, Report] = field(default_factory=dict)

    def rows(self, length: int) -> Iterator[PackedRow]:
        """Rows by best fit. Raises LengthError for data that does not fill one row."""
        packing = pack(
            self.read(), length, policy=policy_named("best-fit", length), cutting=self.cutting,
            boundary=self.boundary, padding_id=self.padding_id,
        )  # fmt: skip
        yield from _enough(packing)
        self.reports[length] = packing.report


def _enough(packing: Packing) -> Iterator[PackedRow]:
    """The same rows; refuses data that does not fill one, before any of it is used."""
    report = packing.report
    held = list[PackedRow]()
    for row in packing:
        held.append(row)
        if report.tokens >= report.length:
            yield from held
            held = []
    documents = report.documents - report.empty
    if not documents:
        raise UsageError(
            f"the data has {report.documents} documents, and none with a token in it; name files "
            "with text"
        )
    if report.tokens < report.length:
        raise LengthError(
            f"the data has {report.tokens:,} tokens in {documents:,} documents, less than one row "
            f"of {report.length:,}; give longer documents, or a shorter --length"
        )


@short
@dataclass(frozen=True)
class PackedFiles:
    """Rows that `ropewalk pack` wrote."""

    files: tuple[PackedFile, ...]

    def rows(self, length: int) -> Iterator[PackedRow]:
        """The files' rows, one file behind the other. Raises LengthError for another length."""
        for file in self.files:
            if file.length != length:
                raise LengthError(
                    f"{file.path} has rows of {file.length:,} tokens, and --length asks for "
                    f"{length:,}; give --length {file.length}, or pack again"
                )
            if file.left:
                raise DataFileError(
                    f"{file.path} has its padding on the left, which is for generating; pack "
                    "without --left to train"
                )
            for _, row in file.rows():
                yield row


class RowStream:
    """The rows of one length, without end. `taken` counts them, `readings` the readings begun."""

    def __init__(self, source: DataFile, length: int, seed: int) -> None:
        self._source, self._length = source, length
        self._random = np.random.default_rng([seed, length])
        self._rows = self._read()
        self.taken = 0
        self.readings = 0

    def next(self) -> PackedRow:
        """The next row. Raises UsageError for data without rows."""
        self.taken += 1
        return next(self._rows)

    def skip(self, rows: int) -> None:
        """Leave out `rows` rows."""
        for _ in range(rows):
            self.next()

    def _read(self) -> Iterator[PackedRow]:
        most = max(1, min(BUFFER_ROWS, BUFFER_TOKENS // self._length))
        while True:
            self.readings += 1
            found = 0
            held = list[PackedRow]()
            for row in self._source.rows(self._length):
                found += 1
                held.append(row)
                if len(held) > most:
                    yield self._drawn(held)
            while held:
                yield self._drawn(held)
            if not found:
                raise UsageError("the data has no documents; name files with text")

    def _drawn(self, held: list[PackedRow]) -> PackedRow:
        place = int(self._random.integers(len(held)))
        held[place], held[-1] = held[-1], held[place]
        return held.pop()


class StepRows:
    """The rows of every step, in order: `next()` gives those of one.

    `vocabulary` bounds ids, `places` the tokens of a document: None where they count anew in
    every row.
    """

    def __init__(
        self,
        source: DataFile,
        mix: Mix,
        rows: int,
        vocabulary: int,
        seed: int,
        *,
        places: int | None = None,
    ) -> None:
        self._mix, self._rows, self._vocabulary, self._places = mix, rows, vocabulary, places
        self.streams = {length: RowStream(source, length, seed) for length in mix.lengths}
        self.step = 0

    def next(self) -> list[PackedRow]:
        """All rows of a step, for all processes.

        Raises DataFileError for an id too large, LengthError for a document beyond `places`.
        """
        length = self._mix.at(self.step)
        stream = self.streams[length]
        rows = [stream.next() for _ in range(self._mix.rows(length, self._rows))]
        for row in rows:
            largest = int(row.token_ids.max())
            if largest >= self._vocabulary:
                raise DataFileError(
                    f"a row of the data ({documents_words(row)}) holds token {largest}, and the "
                    f"model has ids 0 to {self._vocabulary - 1}: the data was made with another "
                    "tokenizer"
                )
            self._check_places(row)
        self.step += 1
        return rows

    def _check_places(self, row: PackedRow) -> None:
        if self._places is None:
            return
        for piece in row.layout.pieces:
            if piece.start + piece.length > self._places:
                raise LengthError(
                    f"document {piece.document} of the data goes on beyond token {self._places:,}, "
                    "where --positions document counts further than the model is made for; give "
                    "--positions reset, or shorter documents"
                )

    def go_to(self, step: int) -> None:
        """Leave out all rows before step `step`."""
        while self.step < step:
            length = self._mix.at(self.step)
            self.streams[length].skip(self._mix.rows(length, self._rows))
            self.step += 1


def documents_words(row: PackedRow) -> str:
    """The documents of a row, for a sentence: "documents 3, 8, 9 and 12 more"."""
    numbers = list(dict.fromkeys(piece.document for piece in row.layout.pieces))
    named = ", ".join(map(str, numbers[:5]))
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"document{'s' if len(numbers) > 1 else ''} {named}{more}"


def open_source(
    found: Sources,
    tokenizer: Any,
    mix: Mix,
    *,
    cutting: Cutting,
    boundary: Boundary,
    padding_id: int,
    reading: Reading,
    rows: int | None = None,
) -> DataFile:
    """Packed Parquet as it is, everything else read, tokenised and packed on the way.

    `rows` are those of the model's table. Raises UsageError for packed and other files together,
    and for several lengths of packed ones, RowError for a text with a token without a row.
    """
    packed = [path for path in found.files if path.suffix.lower() == ".parquet" and _packed(path)]
    if not packed:

        def read() -> Iterator[Document]:
            return Encoder(tokenizer, rows).documents(read_texts(found.files, reading))

        if rows is not None and has_rowless(tokenizer, rows):
            # Before the first step, and not at the one that comes to it.
            for document in read():
                deque(document, maxlen=0)
        return Documents(read, cutting, boundary, padding_id)
    if len(packed) < len(found.files):
        other = next(path for path in found.files if path not in packed)
        raise UsageError(
            f"{packed[0]} holds packed rows and {other} does not; give one kind of data"
        )
    if len(mix.lengths) > 1:
        raise UsageError(
            f"{packed[0]} holds packed rows, which have one length; --length {mix} needs the "
            "documents themselves"
        )
    source = PackedFiles(tuple(PackedFile.open(path) for path in packed))
    for file in source.files:
        said = file.about.get("tokenizer", {}).get("fingerprint")
        mine = Encoder(tokenizer).fingerprint
        if said and said != mine:
            raise UsageError(
                f"{file.path} was packed with another tokenizer than the model's ({said[:12]}, "
                f"the model's is {mine[:12]}); pack again with --tokenizer set to the model"
            )
    return source


def _packed(path: Path) -> bool:
    from ropewalk.packing.row_file import KEY, arrow

    pa, pq = arrow()
    try:
        with pq.ParquetFile(path) as opened:
            return KEY.encode() in (opened.metadata.metadata or {})
    except (OSError, pa.ArrowException) as error:
        raise DataFileError(f"{path} cannot be read as Parquet: {error}") from error


def identity(files: Sequence[Path]) -> str:
    """16 hex digits for the data's files: names, sizes and beginnings and ends of their content.

    Not all of it: terabytes would take hours to hash.
    """
    digest = hashlib.sha256()
    for path in files:
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                begun = file.read(1 << 16)
                file.seek(max(0, size - (1 << 16)))
                ended = file.read()
        except OSError as error:
            raise DataFileError(f"{path} cannot be read: {error.strerror or error}") from error
        digest.update(f"{path.name} {size} ".encode() + begun + ended)
    return digest.hexdigest()[:16]
