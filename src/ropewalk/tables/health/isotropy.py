"""How evenly rows point in all directions, before and after their mean is taken off.

Trained tables share a common vector, and most of what is called anisotropy is that (Mu &
Viswanath, "All-but-the-top", ICLR 2018, arXiv 1702.01417); hence every figure twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.principal import Axes, Spread

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

PAIRS = 5_000
SHARES = 10
"""Axes whose share of the variance is listed."""
_PAIR_NUMBERS = 2**22


@short
@dataclass(frozen=True, slots=True)
class Side:
    """One view of the rows: as they are, or without their mean.

    `pair_cosine` and `pair_deviation` are mean and standard deviation of the cosine of random
    pairs. `shares` are the parts of the sum of squares along the widest axes,
    `participation_ratio` is (sum of variances)^2 / (sum of their squares) along all axes: how many
    axes of one variance would be as even. `partition_ratio` is min Z(a) / max Z(a), where Z(a) =
    sum exp(row . a) and a is each of the axes in either direction; 1 is isotropic. None where
    there is nothing to divide by.
    """

    pair_cosine: float | None
    pair_deviation: float | None
    shares: tuple[float, ...]
    participation_ratio: float | None
    partition_ratio: float | None


@short
@dataclass(frozen=True, slots=True)
class Isotropy:
    """Of `rows` rows of `width` numbers.

    `mean_norm` is the length of the mean row and `mean_share` its square by the mean square of a
    row: the part of all squares that is the common vector. `pairs` pairs were drawn.
    `partition_rows` is how many rows Z sums over. `isoscore` is IsoScore (Rudman et al., ACL
    Findings 2022, arXiv 2108.07344), which takes the mean off itself; None of one column.
    """

    rows: int
    width: int
    mean_norm: float
    mean_share: float | None
    pairs: int
    partition_rows: int
    isoscore: float | None
    before: Side
    after: Side


def isotropy_of(
    table: EmbeddingTable, spread: Spread, axes: Axes, counted: Tensor, sample: Tensor, seed: int
) -> Isotropy:
    """Of the rows `counted` (rows,) bool, whose moments are `spread`, and `axes` all its axes.

    `sample` (n, width) are some of them, over which the partition function sums.
    """
    import torch

    pairs = _pairs(counted.nonzero().flatten(), seed)
    raw, moved = _cosines(table, pairs, spread.mean)
    squares = float(spread.scatter.diagonal().sum() / spread.count + spread.mean.square().sum())
    mean_norm = float(torch.linalg.vector_norm(spread.mean))
    about_zero = spread.axes(centred=False)
    wide = sample.double()
    return Isotropy(
        spread.count,
        len(spread.mean),
        mean_norm,
        mean_norm**2 / squares if squares else None,
        len(pairs),
        len(sample),
        isoscore(axes.values),
        _side(raw, about_zero, wide),
        _side(moved, axes, wide - spread.mean),
    )


def participation_ratio(variances: Tensor) -> float | None:
    """(sum v)^2 / sum v^2 of variances (d,), from 1 to d; None where all are zero."""
    squares = float(variances.square().sum())
    return float(variances.sum()) ** 2 / squares if squares else None


def isoscore(variances: Tensor) -> float | None:
    """IsoScore in closed form from the variances (d,) along the principal axes: 1 even, 0 one axis.

    Rudman et al., section 3: the variances are scaled to length sqrt(d), their distance to the
    vector of ones is the isotropy defect, and d phi = d - defect^2 (d - sqrt d) fits k axes of
    one variance. With s = sum v / |v| that comes to phi = s^2 / d, and s^2 is the participation
    ratio: IsoScore = (participation ratio - 1) / (d - 1). None for one axis, or no variance.
    """
    ratio = participation_ratio(variances)
    return None if ratio is None or len(variances) < 2 else (ratio - 1) / (len(variances) - 1)


def partition_ratio(rows: Tensor, axes: Tensor) -> float:
    """min Z / max Z over the unit columns of `axes` (d, k) and their opposites; rows (n, d) fp64.

    Arora et al., TACL 2016, section 3, with the axes of Mu & Viswanath, section 2.2; they are
    taken in both directions, for an axis has none of its own.
    """
    import torch

    along = torch.matmul(rows, axes)
    logs = torch.cat([torch.logsumexp(along, 0), torch.logsumexp(-along, 0)])
    return math.exp(float(logs.min() - logs.max()))


def _side(cosines: Tensor, axes: Axes, sample: Tensor) -> Side:
    known = cosines[cosines.isfinite()]
    return Side(
        float(known.mean()) if len(known) else None,
        float(known.std(correction=0)) if len(known) else None,
        tuple(axes.shares[:SHARES]),
        participation_ratio(axes.values),
        partition_ratio(sample, axes.vectors) if axes.total else None,
    )


def _pairs(rows: Tensor, seed: int) -> Tensor:
    """PAIRS pairs of two different rows each, (pairs, 2); none where there is one row."""
    import torch

    if len(rows) < 2:
        return torch.empty(0, 2, dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(len(rows), (PAIRS,), generator=generator)
    further = torch.randint(1, len(rows), (PAIRS,), generator=generator)
    return torch.stack([rows[first], rows[(first + further) % len(rows)]], 1)


def _cosines(table: EmbeddingTable, pairs: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines (pairs,) fp64 of the rows, and of the rows without `mean`; NaN without direction."""
    import torch

    raw, moved = [], []
    step = max(1, _PAIR_NUMBERS // table.width // 2)
    for part in pairs.split(step) if len(pairs) else ():
        one, other = (table[part[:, side].tolist()].double() for side in (0, 1))
        raw.append(_cosine(one, other))
        moved.append(_cosine(one - mean, other - mean))
    none = torch.empty(0, dtype=torch.float64)
    return torch.cat([none, *raw]), torch.cat([none, *moved])


def _cosine(one: Tensor, other: Tensor) -> Tensor:
    lengths = one.square().sum(1).sqrt() * other.square().sum(1).sqrt()
    return (one * other).sum(1) / lengths
