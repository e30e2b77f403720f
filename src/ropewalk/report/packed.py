"""What packing did, as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ropewalk.packing.files import POLICIES, Packed
from ropewalk.report.document import (
    Block,
    Column,
    Detail,
    Details,
    Document,
    Heading,
    Prose,
    Table,
    in_terminal,
    on_page,
)
from ropewalk.report.text import listed

SCHEMA = "ropewalk.pack/1"
_BAR = 18


def document(packed: Packed) -> Document:
    """The file, its fill, and how often each distance will be trained."""
    title = str(packed.path)
    question = f"What do the rows of {title} hold?"
    return Document(title, tuple(_blocks(packed)), "ropewalk pack", question)


def _blocks(packed: Packed) -> Iterator[Block]:
    report = packed.report
    yield Prose(
        f"{packed.path}: {report.rows:,} rows of {report.length:,} tokens, {packed.size:,} bytes",
        rest="",
        hyphens=False,
    )
    yield Details(tuple(_details(packed)))
    if packed.encoded.special:
        yield Prose(
            f"{packed.encoded.special:,} control tokens are spelt out in the texts themselves and "
            "were read as such."
        )
    if packed.sources.left_out:
        names = listed((path.name for path in packed.sources.left_out), 4)
        yield Prose(
            f"Left out of the folders, no text by their names: {len(packed.sources.left_out):,} "
            f"files ({names})"
        )
    yield ""
    head = "How often each distance between two tokens will be trained"
    yield in_terminal(head)
    yield on_page(Heading(head))
    yield _distances(packed)
    yield Prose(
        "A full bar: as often as in rows that hold one document each. What is hardly trained is "
        "hardly learned. Without a mask tokens also train on neighbours that have nothing to do "
        "with them."
    )


def _details(packed: Packed) -> Iterator[Detail]:
    report, settings = packed.report, packed.settings
    fill = f"{report.fill:.2%} of all places hold a document's token"
    yield Detail("fill", fill, report.fill)
    empty = f", {report.empty:,} of them empty and left out" if report.empty else ""
    number = len(packed.sources.files)
    files = "1 file" if number == 1 else f"{number:,} files"
    yield Detail("documents", f"{report.documents:,} from {files}{empty}", report.documents)
    split = f"{report.split:,} of the documents lie in more than one piece"
    yield Detail("split", split, report.split)
    yield Detail("tokens", f"{report.tokens:,}, boundaries included", report.tokens)
    policy = POLICIES[type(settings.policy)]
    yield Detail("rows chosen", f"{policy}, documents {settings.cutting}")
    yield Detail("tokenizer", packed.tokenizer)
    yield Detail("", f"SHA-256 {packed.fingerprint[:32]}")


def _distances(packed: Packed) -> Table:
    columns = (
        Column("", 10, lambda row: row[0], "{:,} ", align=">", key="distance"),
        Column("within documents", 17, lambda row: row[1], "{:,}", key="masked"),
        Column("", _BAR + 3, lambda row: row[1] / row[3], _bar, align="<", key="share"),
        Column("without a mask", 17, lambda row: row[2], "{:,}", key="unmasked"),
    )
    return Table(columns, list(trained_distances(packed)), key="distances")


def _bar(share: float) -> str:
    return "#" * round(_BAR * share)


def values(packed: Packed) -> dict[str, object]:
    """All of it as plain JSON values; `distances` is f at doublings, masked and unmasked."""
    report = packed.report
    return {
        "schema": SCHEMA,
        "path": str(packed.path),
        "bytes": packed.size,
        **packed.settings.document(),
        "tokenizer": {
            "name": packed.tokenizer,
            "fingerprint": packed.fingerprint,
            "vocabulary": packed.vocabulary,
        },
        "files": len(packed.sources.files),
        "left_out": [str(path) for path in packed.sources.left_out],
        "rows": report.rows,
        "fill": report.fill,
        "documents": report.documents,
        "empty": report.empty,
        "split": report.split,
        "tokens": report.tokens,
        "characters": packed.encoded.characters,
        "special_in_text": packed.encoded.special,
        "distances": [
            {"distance": distance, "masked": masked, "unmasked": unmasked, "full_rows": full}
            for distance, masked, unmasked, full in trained_distances(packed)
        ],
        "seconds": asdict(packed.seconds),
    }


def trained_distances(packed: Packed) -> Iterator[tuple[int, int, int, int]]:
    """f at 1, 2, 4, ... and the longest distance: masked, unmasked, and what rows would give that
    hold one document each.
    """
    report = packed.report
    masked, unmasked = report.distances(), report.distances(masked=False)
    last = report.length - 1
    distances = [1 << i for i in range(last.bit_length()) if 1 << i < last]
    for distance in [*distances, last] if last else []:
        full = report.rows * (report.length - distance)
        yield distance, masked.at(distance), unmasked.at(distance), full
