"""A resized checkpoint in words: what each table became, and what each new row was made from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ropewalk.report.layout import Piece, Prose, lines
from ropewalk.report.text import visible
from ropewalk.tables.vocabulary import display

if TYPE_CHECKING:
    from ropewalk.tables.resize import RowOrigin
    from ropewalk.tables.resized_checkpoint import ResizedCheckpoint

_SHOWN = 12
"""New rows that are named one by one."""


def resize_lines(found: ResizedCheckpoint, width: int) -> Iterator[str]:
    """The whole report, in lines of at most `width` cells."""
    return lines(_pieces(found), width)


def resize_document(found: ResizedCheckpoint) -> dict[str, object]:
    """The same as plain values, every row among them."""
    tokens = dict(found.added)
    return {
        "model": found.model,
        "path": str(found.path),
        "rows": {"before": found.rows_before, "after": found.rows},
        "tokens": found.resized.tokens,
        "tie": found.tie,
        "tables": [
            {
                "name": t.name,
                "rows_before": t.rows_before,
                "rows_after": t.rows_after,
                "kept": t.kept,
                "sha256_before": t.hash_before,
                "sha256_after": t.hash_after,
            }
            for t in found.resized.tables
        ],
        "new_rows": [
            {"row": o.row, "token": tokens.get(o.row), "made": o.made, "sources": list(o.sources)}
            for o in found.resized.origins
        ],
        "dropped": list(found.resized.dropped),
        "left_out": list(found.left_out),
    }


def _pieces(found: ResizedCheckpoint) -> Iterator[Piece]:
    told = found.resized
    yield f"{visible(found.model)}: {found.rows_before:,} -> {found.rows:,} rows"
    yield Prose(visible(found.tie), "  ", "  ")
    for table in told.tables:
        yield Prose(
            f"{visible(table.name)}: {table.rows_before:,} -> {table.rows_after:,} rows, the first "
            f"{table.kept:,} as they were (sha256 {table.hash_after[:12]})",
            "  ",
            "    ",
        )
    yield ""
    yield f"{told.tokens:,} tokens, {found.rows - told.tokens:,} rows without one; new rows:"
    tokens = dict(found.added)
    for made, several in groupby(told.origins, key=lambda o: (o.made, bool(o.sources))):
        group = list(several)
        named = group[:_SHOWN] if made[1] or group[0].row in tokens else []
        for origin in named:
            yield Prose(_row(origin, tokens.get(origin.row)), "  ", "    ")
        rest = group[len(named) :]
        if rest:
            numbers = f"{rest[0].row} to {rest[-1].row}" if len(rest) > 1 else f"{rest[0].row}"
            yield Prose(f"row{'s' * (len(rest) > 1)} {numbers}: {made[0]}", "  ", "    ")
    if told.dropped:
        yield Prose(
            f"{len(told.dropped):,} rows held values and belonged to no token, and were given to "
            f"new tokens or cut off: {told.dropped[0]} to {told.dropped[-1]}",
            "  ",
            "    ",
        )
    yield ""
    yield Prose(f"written to {visible(str(found.path))}, and read back as it was meant")
    if found.left_out:
        yield Prose(f"left behind: {visible(', '.join(found.left_out))}")


def _row(origin: RowOrigin, token: str | None) -> str:
    shown = "" if token is None else f" {visible(display(token.encode()))}"
    sources = f" (rows {', '.join(map(str, origin.sources))})" if origin.sources else ""
    return f"row {origin.row}{shown}: {origin.made}{sources}"
