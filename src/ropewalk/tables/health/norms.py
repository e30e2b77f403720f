"""How long rows are: a histogram, quantiles, the shortest and the longest, by kind of token.

A row's length says how much it was moved: rows that training never touches stay where they were
put, or shrink under weight decay (Land & Bartolo, arXiv 2405.05417, section 3), and frequent
tokens differ from rare ones (Gao et al., arXiv 1907.12009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.health.scan import KINDS, Ranked, Scan

if TYPE_CHECKING:
    from torch import Tensor

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
