"""One pass over a table for what a row tells by itself: its norm, its kind, its bits' digest.

A row's norm says how much it was moved: rows that training never touches stay where they were put,
or shrink under weight decay (Land & Bartolo, arXiv 2405.05417, section 3), and frequent tokens
differ from rare ones (Gao et al., arXiv 1907.12009).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.principal import finite_rows
from ropewalk.tables.vocabulary import TokenKind

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

TILE_NUMBERS = 2**22
"""Numbers of a tile: 16 MiB in fp32, whatever the width."""

_SQUARES = (2.0**-50, 2.0**50)
"""Numbers between whose squares fp32 sums without loss."""

NO_TOKEN, ROW = "no token", "row"
KINDS = (*(kind.value for kind in TokenKind), NO_TOKEN, ROW)
"""What a row may be; `ROW` is all that is known of it without a vocabulary."""


@short
@dataclass(frozen=True, slots=True)
class Named:
    """A row and what it stands for, as `EmbeddingTable.label` shows it."""

    row: int
    label: str


@short
@dataclass(frozen=True, slots=True)
class Ranked:
    """A row, what it stands for, its kind (of KINDS), and the number it is ranked by."""

    row: int
    label: str
    kind: str
    score: float


@short
@dataclass(frozen=True, slots=True)
class RowStretch:
    """Rows that have something in common: how many, all of them as (first, last), some by name."""

    count: int
    ranges: tuple[tuple[int, int], ...]
    shown: tuple[Named, ...]


@short
@dataclass(frozen=True)
class Scan:
    """What each row of `table` is, by row number.

    `norms` (rows,) fp64 are L2 norms, NaN or infinite where the row is. `finite`, `zero`,
    `oversized` (beyond what fp32 can square), `tokened` and `usable` are (rows,) bool; usable rows
    are finite, not zero, not oversized: they have a direction. `kinds` (rows,) uint8 are places
    in KINDS. `digests` are 16 bytes of each row's bits.
    """

    table: EmbeddingTable
    norms: Tensor
    finite: Tensor
    zero: Tensor
    oversized: Tensor
    kinds: Tensor
    digests: tuple[bytes, ...]

    @property
    def usable(self) -> Tensor:
        """(rows,) bool: rows with a direction."""
        return self.finite & ~self.zero & ~self.oversized

    @property
    def tokened(self) -> Tensor:
        """(rows,) bool: rows that have a token; all of them without a vocabulary."""
        return self.kinds != KINDS.index(NO_TOKEN)

    def counted(self, *, all_rows: bool) -> Tensor:
        """(rows,) bool: usable rows, those without a token only with `all_rows`."""
        return self.usable if all_rows else self.usable & self.tokened

    def kind(self, row: int) -> str:
        """What a row is, of KINDS."""
        return KINDS[int(self.kinds[row])]

    def stretch(self, mask: Tensor, shown: int) -> RowStretch:
        """The rows of a mask (rows,), the first `shown` of them by name."""
        rows: list[int] = mask.nonzero().flatten().tolist()
        return RowStretch(len(rows), ranges(rows), self.named(rows[:shown]))

    def named(self, rows: Iterable[int]) -> tuple[Named, ...]:
        """Rows with what they stand for."""
        return tuple(Named(row, self.table.label(row)) for row in rows)

    def ranked(self, rows: Iterable[int], scores: Iterable[float]) -> tuple[Ranked, ...]:
        """Rows with what they stand for, in the order given."""
        return tuple(
            Ranked(row, self.table.label(row), self.kind(row), float(score))
            for row, score in zip(rows, scores, strict=True)
        )


def tile_rows(table: EmbeddingTable) -> int:
    """How many rows make a tile of TILE_NUMBERS numbers."""
    return max(1, TILE_NUMBERS // table.width)


def scan(table: EmbeddingTable) -> Scan:
    """Go over the table once."""
    import torch

    # Made at once: small results between large tiles would keep the heap from using these again.
    norms = torch.empty(table.rows, dtype=torch.float64)
    finite, zero, oversized = (torch.empty(table.rows, dtype=torch.bool) for _ in range(3))
    digests: list[bytes] = []
    for start, rows in table.tiles(tile_rows(table)):
        here = slice(start, start + len(rows))
        # NaN and infinity go through to the largest number.
        peak = rows.abs().amax(1)
        norms[here] = row_norms(rows, peak)
        finite[here] = peak.isfinite()
        zero[here] = peak == 0
        oversized[here] = peak.isfinite() & ~finite_rows(peak[:, None])
        digests += _digests(rows)
    return Scan(table, norms, finite, zero, oversized, _kinds_of_rows(table), tuple(digests))


def row_norms(rows: Tensor, peak: Tensor | None = None) -> Tensor:
    """L2 norms (n,) fp64 of rows (n, width), whose largest absolute numbers are `peak` (n,).

    Summed in fp32 where their squares fit in it, within 1e-6; in fp64 elsewhere.
    """
    import torch

    if peak is None:
        peak = rows.abs().amax(1)
    norms: Tensor = torch.linalg.vector_norm(rows.float(), dim=1).double()
    low, high = _SQUARES
    unsafe = ~((peak.double() > low) & (peak.double() < high)) & (peak != 0)
    if bool(unsafe.any()):
        norms[unsafe] = torch.linalg.vector_norm(rows[unsafe], dim=1, dtype=torch.float64)
    return norms


def ranges(rows: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Ascending rows as stretches without a gap: (first, last) of each."""
    found: list[tuple[int, int]] = []
    for row in rows:
        if found and found[-1][1] == row - 1:
            found[-1] = (found[-1][0], row)
        else:
            found.append((row, row))
    return tuple(found)


def _digests(rows: Tensor) -> list[bytes]:
    import torch

    bits = rows.contiguous().view(torch.uint8).numpy()
    return [blake2b(row, digest_size=16).digest() for row in bits]


def _kinds_of_rows(table: EmbeddingTable) -> Tensor:
    import torch

    place = {name: at for at, name in enumerate(KINDS)}
    listed = [place[table.kind(row)] for row in range(table.rows)]
    return torch.tensor(listed, dtype=torch.uint8)


BINS = 20
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@short
@dataclass(frozen=True, slots=True)
class KindNorms:
    """The norms of one kind of row (of KINDS): how many, and their order statistics."""

    kind: str
    count: int
    lowest: float
    median: float
    highest: float


@short
@dataclass(frozen=True, slots=True)
class Norms:
    """L2 norms of `count` rows that are finite, not zero, and have a token.

    `quantiles` are (share, norm) for QUANTILES. The histogram has `len(counts)` bins of one width
    from `edges[0]` to `edges[-1]`. `kinds` takes in rows without a token. `lowest` and `highest`
    are ordered by norm, then by row.
    """

    count: int
    mean: float
    deviation: float
    quantiles: tuple[tuple[float, float], ...]
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    kinds: tuple[KindNorms, ...]
    lowest: tuple[Ranked, ...]
    highest: tuple[Ranked, ...]


def norms_of(found: Scan, counted: Tensor, top: int) -> Norms | None:
    """The norms of the rows `counted` (rows,) bool, `top` named at either end; None of no row."""
    import torch

    rows = counted.nonzero().flatten()
    if not len(rows):
        return None
    norms = found.norms[rows]
    # Stable, so that equal norms stay in the order of their rows.
    up = torch.argsort(norms, stable=True)[:top]
    down = torch.argsort(norms, descending=True, stable=True)[:top]
    counts, edges = histogram(norms)
    return Norms(
        len(rows),
        float(norms.mean()),
        float(norms.std(correction=0)),
        quantiles(norms),
        edges,
        counts,
        tuple(_kinds(found)),
        found.ranked(rows[up].tolist(), norms[up].tolist()),
        found.ranked(rows[down].tolist(), norms[down].tolist()),
    )


def histogram(values: Tensor) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Counts of BINS bins of one width from the lowest value to the highest, and their edges.

    Values (n,) fp64, one at least. Where all are one value, there is one bin.
    """
    import numpy as np

    low, high = float(values.min()), float(values.max())
    # Bins narrower than the distance of two fp64 numbers would be none.
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        return (len(values),), (low, high)
    counts, edges = np.histogram(values.numpy(), BINS, (low, high))
    return tuple(counts.tolist()), tuple(edges.tolist())


def quantiles(
    values: Tensor, shares: tuple[float, ...] = QUANTILES
) -> tuple[tuple[float, float], ...]:
    """(share, value) for each share of the values (n,), n >= 1, linear between two values."""
    import numpy as np

    found = np.quantile(values.double().numpy(), shares)
    return tuple(zip(shares, found.tolist(), strict=True))


def _kinds(found: Scan) -> list[KindNorms]:
    listed = []
    for place, kind in enumerate(KINDS):
        norms = found.norms[found.usable & (found.kinds == place)]
        if len(norms):
            low, high = float(norms.min()), float(norms.max())
            listed.append(KindNorms(kind, len(norms), low, float(norms.quantile(0.5)), high))
    return listed
