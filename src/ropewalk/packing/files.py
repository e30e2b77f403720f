"""Files of text into a file of packed rows, in one stream: read, tokenise, pack, write.

Held at a time are a batch of texts (2 Mi characters, or one window of a long document), the open
rows and one row group, whatever the files' size. A single record of JSON lines or Parquet is held
whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ropewalk.errors import UsageError
from ropewalk.packing.pack import Boundary, Cutting, Packing, Report, pack
from ropewalk.packing.policies import BestFit, InOrder, Policy
from ropewalk.packing.row_file import RowWriter, row_file
from ropewalk.packing.table_rows import check_rows
from ropewalk.packing.texts import Reading, Sources, Text, read_texts
from ropewalk.packing.tokens import Encoded, Encoder
from ropewalk.short import short
from ropewalk.shown import Shown

NO_BOUNDARY = Boundary()
_OPEN_TOKENS = 1 << 24
_T = TypeVar("_T")


@short
@dataclass(frozen=True, slots=True)
class PackSettings:
    """How rows are made; see `pack`. Raises LengthError and UsageError when used."""

    length: int
    policy: Policy
    cutting: Cutting = "kept"
    boundary: Boundary = NO_BOUNDARY
    padding_id: int = 0
    left: bool = False
    multiple: int = 1

    def document(self) -> dict[str, object]:
        """As plain JSON values."""
        policy: dict[str, object] = {"name": POLICIES[type(self.policy)]}
        if isinstance(self.policy, BestFit):
            policy["open_rows"] = self.policy.open_rows
        return {
            "length": self.length,
            "policy": policy,
            "cutting": self.cutting,
            "boundary": asdict(self.boundary),
            "padding_id": self.padding_id,
            "left": self.left,
            "multiple": self.multiple,
        }


POLICIES: dict[type[Any], str] = {BestFit: "best-fit", InOrder: "in-order"}


def policy_named(name: str, length: int) -> Policy:
    """The policy of a name, best-fit with as many open rows as 16 Mi tokens are, 16 to 1024.

    Raises UsageError for another name.
    """
    if name == "best-fit":
        return BestFit(min(1024, max(16, _OPEN_TOKENS // max(length, 1))))
    if name == "in-order":
        return InOrder()
    raise UsageError(f"the policy {name!r} is not known; there are best-fit and in-order")


def boundary_named(word: str, tokenizer: Any, rows: int | None = None) -> Boundary:
    """The boundary that "eos", "bos", "both", "none" or a token id stands for.

    `rows` are those of the model's table, None where it is not known. Raises UsageError for
    another word, for a tokenizer without that token, and for an id that the tokenizer has not;
    RowError for one that the table has no row for.
    """
    found = _boundary_named(word, tokenizer)
    if rows is not None:
        ids = [each for each in (found.before, found.after) if each is not None]
        check_rows(ids, rows, tokenizer.convert_ids_to_tokens, f"the boundary {word!r}")
    return found


def _boundary_named(word: str, tokenizer: Any) -> Boundary:
    if word == "none":
        return Boundary()
    if word in ("eos", "bos", "both"):
        bos = _named_id(tokenizer, "bos", word) if word != "eos" else None
        eos = _named_id(tokenizer, "eos", word) if word != "bos" else None
        return Boundary(before=bos, after=eos)
    if not (word.isascii() and word.isdigit()):
        raise UsageError(
            f"the boundary {word!r} is not known; there are eos, bos, both, none and a token id"
        )
    size = len(tokenizer)
    if int(word) >= size:
        raise UsageError(
            f"the boundary {word} is no token of this tokenizer, whose ids are 0 to {size - 1}"
        )
    return Boundary(after=int(word))


def _named_id(tokenizer: Any, which: str, word: str) -> int:
    found = getattr(tokenizer, f"{which}_token_id", None)
    if found is None:
        raise UsageError(
            f"the tokenizer has no {which.upper()} token, which the boundary {word!r} asks for; "
            "give a token id or none"
        )
    return int(found)


@short
@dataclass(frozen=True, slots=True)
class Seconds:
    """Where the time went. Reading and packing run beside nothing; the tokenizer uses all cores."""

    reading: float
    tokenising: float
    packing: float
    writing: float


@short
@dataclass(frozen=True, slots=True)
class Packed(Shown):
    """A file of rows, and everything that was counted on the way to it."""

    path: Path
    size: int
    settings: PackSettings
    tokenizer: str
    fingerprint: str
    vocabulary: int
    sources: Sources
    report: Report
    encoded: Encoded
    seconds: Seconds


Progress = Callable[[Report, Encoded], None]
"""Told after every row group's worth of rows."""


def pack_files(
    found: Sources,
    tokenizer: Any,
    settings: PackSettings,
    out: Path,
    *,
    reading: Reading | None = None,
    name: str = "",
    rows: int | None = None,
    progress: Progress = lambda _report, _encoded: None,
) -> Packed:
    """Read, tokenise, pack and write; `out` is whole or as it was.

    `name` is what the file says the tokenizer is called, `rows` are those of its model's table,
    None where none is known: an id without a row is refused with RowError. Raises UsageError for
    no document with text, LengthError and UsageError for settings that cannot be, DataFileError
    for files that cannot be read, StoreError for one that cannot be written.
    """
    encoder = Encoder(tokenizer, rows)
    clock = _Clock()
    texts = clock.timed(read_texts(found.files, reading), "reading")
    packing = pack(
        encoder.documents(_parts_timed(texts, clock)), settings.length, policy=settings.policy,
        cutting=settings.cutting, boundary=settings.boundary, padding_id=settings.padding_id,
        left=settings.left, multiple=settings.multiple,
    )  # fmt: skip
    report = packing.report
    begun = time.perf_counter()
    with row_file(out, settings.length) as writer:
        _write(packing, writer, clock, lambda: progress(report, encoder.count))
        if not report.rows:
            raise UsageError(
                f"{len(found.files)} files hold {report.documents} documents and no token; there "
                "is nothing to pack"
            )
        start = time.perf_counter()
        writer.flush()
        writer.describe(_about(settings, name, encoder, report))
        clock.add("writing", start)
    whole = time.perf_counter() - begun
    spent = clock.seconds
    rest = whole - spent["reading"] - spent["writing"] - encoder.count.seconds
    return Packed(
        out, out.stat().st_size, settings, name, encoder.fingerprint, encoder.vocabulary, found,
        report, encoder.count,
        Seconds(spent["reading"], encoder.count.seconds, rest, spent["writing"]),
    )  # fmt: skip


def _write(packing: Packing, rows: RowWriter, clock: _Clock, tell: Callable[[], None]) -> None:
    """All rows into the file; `tell` is called after every row group's worth of tokens."""
    told = 0
    for row in packing:
        start = time.perf_counter()
        rows.add(row)
        clock.add("writing", start)
        if packing.report.tokens - told > _OPEN_TOKENS // 16:
            told = packing.report.tokens
            tell()


def _about(
    settings: PackSettings, name: str, encoder: Encoder, report: Report
) -> dict[str, object]:
    """What the file says of how its rows were made."""
    return {
        **settings.document(),
        "tokenizer": {
            "name": name,
            "fingerprint": encoder.fingerprint,
            "vocabulary": encoder.vocabulary,
        },
        "rows": report.rows,
        "documents": report.documents,
        "empty": report.empty,
        "split": report.split,
        "tokens": report.tokens,
    }


class _Clock:
    """Seconds by what they went into."""

    def __init__(self) -> None:
        self.seconds = {"reading": 0.0, "writing": 0.0}

    def add(self, what: str, start: float) -> None:
        self.seconds[what] += time.perf_counter() - start

    def timed(self, items: Iterator[_T], what: str) -> Iterator[_T]:
        while True:
            start = time.perf_counter()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                self.add(what, start)
            yield item


def _parts_timed(texts: Iterator[Text], clock: _Clock) -> Iterator[Text]:
    """The same texts, their parts' reading timed too."""
    for text in texts:
        yield Text(text.where, clock.timed(text.parts, "reading"))
