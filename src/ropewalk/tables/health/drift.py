"""How far the rows of the output head are from those of the input table.

Tied, the two are one. Untied, they begin apart or as one, and training moves them on its own;
cosine by row says how much of a token is the same on both sides (Press & Wolf, EACL 2017, arXiv
1608.05859, compare the two).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.health.scan import Ranked, Scan, quantiles, tile_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable


@short
@dataclass(frozen=True, slots=True)
class HeadDrift:
    """Of input and output tables. `sentence` says whether they are tied, and why it is known.

    `equal`: the same bits; None where there is nothing to compare. `compared` rows have a
    direction in both; the rest, `without_direction`, are in no figure. `quantiles` are (share,
    cosine), `norm_ratio` the median of |output row| / |input row|. `drifted` are the rows of
    least cosine.
    """

    sentence: str
    head: str | None
    equal: bool | None
    compared: int
    without_direction: int
    mean_cosine: float | None
    quantiles: tuple[tuple[float, float], ...]
    norm_ratio: float | None
    drifted: tuple[Ranked, ...]


def drift_of(
    found: Scan, head: EmbeddingTable | None, counted: Tensor, sentence: str, top: int
) -> HeadDrift:
    """Compare the rows `counted` (rows,) bool of the table of `found` with those of `head`.

    `head` is None where none is stored, or has the shape of the table; `sentence` is what the
    tie says.
    """
    import torch

    if head is None:
        return HeadDrift(sentence, None, None, 0, 0, None, (), None, ())
    cosines, norms, equal = _by_row(found.table, head)
    known = counted & cosines.isfinite()
    rows = known.nonzero().flatten()
    lost = int(counted.sum()) - len(rows)
    if not len(rows):
        return HeadDrift(sentence, head.name, equal, 0, lost, None, (), None, ())
    least = torch.argsort(cosines[rows], stable=True)[:top]
    return HeadDrift(
        sentence,
        head.name,
        equal,
        len(rows),
        lost,
        float(cosines[rows].mean()),
        quantiles(cosines[rows]),
        float((norms[rows] / found.norms[rows]).quantile(0.5)),
        found.ranked(rows[least].tolist(), cosines[rows][least].tolist()),
    )


def _by_row(table: EmbeddingTable, head: EmbeddingTable) -> tuple[Tensor, Tensor, bool]:
    """Cosines and the head's norms, (rows,) fp64 each, and whether all bits are the same."""
    import torch

    equal, size = table.dtype == head.dtype, tile_rows(table)
    cosines, norms = (torch.empty(table.rows, dtype=torch.float64) for _ in range(2))
    for (start, one), (_, other) in zip(table.tiles(size), head.tiles(size), strict=True):
        # As bits, in which NaN is equal to itself.
        equal = equal and torch.equal(one.view(torch.uint8), other.view(torch.uint8))
        own = torch.linalg.vector_norm(one, dim=1, dtype=torch.float64)
        norm = torch.linalg.vector_norm(other, dim=1, dtype=torch.float64)
        # Divided first, for products of large numbers are infinite.
        left, right = one / own[:, None], other / norm[:, None]
        here = slice(start, start + len(one))
        cosines[here] = (left * right).sum(1, dtype=torch.float64)
        norms[here] = norm
    return cosines, norms, equal
