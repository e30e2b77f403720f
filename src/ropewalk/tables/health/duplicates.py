"""Rows that hold the same bits: found by digests of all rows, confirmed number by number.

Tokens whose rows are one cannot be told apart by a model; rows that were initialised together and
never trained are often equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.health.scan import Named, Scan, Stretch, ranges, tile_rows

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable


@short
@dataclass(frozen=True, slots=True)
class Duplicates:
    """Groups of rows with the same bits, the largest first, then by their first row.

    `groups` and `rows` count all of them, `largest` shows some. Zero rows and rows with NaN or
    infinity have answers of their own and are in no group. Quantised rows are compared as they
    are handed out, in fp32.
    """

    groups: int
    rows: int
    largest: tuple[Stretch, ...]


def duplicates_of(found: Scan, top: int, named: int = 6) -> Duplicates:
    """All groups of equal rows, the `top` largest shown with up to `named` of their rows."""
    by_digest: defaultdict[bytes, list[int]] = defaultdict(list)
    for row in (found.finite & ~found.zero).nonzero().flatten().tolist():
        by_digest[found.digests[row]].append(row)
    groups = [
        group
        for rows in by_digest.values()
        if len(rows) > 1
        for group in _confirmed(found.table, rows)
    ]
    groups.sort(key=lambda rows: (-len(rows), rows[0]))
    shown = tuple(Stretch(len(g), ranges(g), _names(found, g, named)) for g in groups[:top])
    return Duplicates(len(groups), sum(map(len, groups)), shown)


def _names(found: Scan, rows: list[int], named: int) -> tuple[Named, ...]:
    return found.named(rows[:named])


def _confirmed(table: EmbeddingTable, rows: list[int]) -> Iterator[list[int]]:
    """Rows of one digest, apart where their bits differ after all."""
    import torch

    size = tile_rows(table)
    while len(rows) > 1:
        first = table[rows[0]].view(torch.uint8)
        same, other = [rows[0]], []
        for start in range(1, len(rows), size):
            part = rows[start : start + size]
            equal = (table[part].view(torch.uint8) == first).all(1).tolist()
            same += [row for row, is_same in zip(part, equal, strict=True) if is_same]
            other += [row for row, is_same in zip(part, equal, strict=True) if not is_same]
        if len(same) > 1:
            yield same
        rows = other
