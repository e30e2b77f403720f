"""What packing did, in the terminal and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ropewalk.packing.files import POLICIES, Packed
from ropewalk.report.layout import Piece, Prose, Table, lines
from ropewalk.report.text import visible

WIDTH = 80
SCHEMA = "ropewalk.pack/1"
_BAR = 18


def pack_lines(packed: Packed, width: int = WIDTH) -> Iterator[str]:
    """The file, its fill, and how often each distance will be trained; ASCII of `width` columns,
    WIDTH at most.
    """
    yield from lines(_pieces(packed), min(width, WIDTH))


def _pieces(packed: Packed) -> Iterator[Piece]:
    report, settings = packed.report, packed.settings
    yield from _wrapped(
        f"{visible(str(packed.path))}: {report.rows:,} rows of {report.length:,} tokens, "
        f"{packed.size:,} bytes"
    )
    yield from _fact("fill", f"{report.fill:.2%} of all places hold a document's token")
    empty = f", {report.empty:,} of them empty and left out" if report.empty else ""
    yield from _fact("documents", f"{report.documents:,} from {_files(packed)}{empty}")
    yield from _fact("split", f"{report.split:,} of the documents lie in more than one piece")
    yield from _fact("tokens", f"{report.tokens:,}, boundaries included")
    policy = POLICIES[type(settings.policy)]
    yield from _fact("rows chosen", f"{policy}, documents {settings.cutting}")
    yield from _fact("tokenizer", visible(packed.tokenizer))
    yield from _fact("", f"SHA-256 {packed.fingerprint[:32]}")
    if packed.encoded.special:
        yield from _wrapped(
            f"{packed.encoded.special:,} control tokens are spelt out in the texts themselves and "
            "were read as such.",
        )
    if packed.sources.left_out:
        names = ", ".join(visible(p.name) for p in packed.sources.left_out[:4])
        yield from _wrapped(
            f"Left out of the folders, no text by their names: {len(packed.sources.left_out):,} "
            f"files ({names}{', ...' if len(packed.sources.left_out) > 4 else ''})"
        )
    yield ""
    yield from _distances(packed)


def pack_json(packed: Packed) -> dict[str, object]:
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


def _distances(packed: Packed) -> Iterator[Piece]:
    yield "How often each distance between two tokens will be trained"
    table = [
        (f"{'':<10}", f"{'within documents':>17}", " " * (_BAR + 3), f"{'without a mask':>17}")
    ]
    rows = list(trained_distances(packed))
    for distance, masked, unmasked, full in rows:
        bar = "#" * round(_BAR * masked / full)
        table.append(
            (f"{distance:>9,} ", f"{masked:>17,}", f"  {bar:<{_BAR}} ", f"{unmasked:>17,}")
        )
    yield Table(table)
    yield from _wrapped(
        "A full bar: as often as in rows that hold one document each. What is hardly trained is "
        "hardly learned. Without a mask tokens also train on neighbours that have nothing to do "
        "with them."
    )


def _fact(label: str, text: str) -> Iterator[Piece]:
    yield Prose(text, f"{label:<18}", " " * 18)


def _files(packed: Packed) -> str:
    number = len(packed.sources.files)
    return "1 file" if number == 1 else f"{number:,} files"


def _wrapped(text: str) -> Iterator[Piece]:
    yield Prose(text)
