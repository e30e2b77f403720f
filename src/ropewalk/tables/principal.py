"""Mean, covariance and principal axes of rows, in one pass; rows placed on their two widest axes.

    moments = Moments(table.width)
    for start, rows in table.tiles():
        moments.add(start, rows)
    axes = moments.spread().axes(2)
    axes.shares, axes.project(table[[5, 17]])

Products are taken tile by tile in fp32 and summed in fp64, about the mean of the first tile, so
that a common vector in all rows, which trained tables have, costs no digits. `project` puts rows
on the axes of all rows that count, and `nearest` finds the neighbours of those that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.sample import RowSample, choose_rows
from ropewalk.tables.search import neighbours

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable


@short
@dataclass(frozen=True, slots=True)
class Axes:
    """Directions of greatest spread, widest first (Pearson 1901, Hotelling 1933).

    `vectors` (width, k) fp64 are orthonormal; the entry of greatest size in each is positive, so
    that the same table gives the same map. `values` (k,) fp64 are the variances along them,
    `total` the variance along all `width` directions, and `centre` (width,) fp64 what is taken
    off a row first: the mean, or zero.
    """

    vectors: Tensor
    values: Tensor
    total: float
    centre: Tensor

    @property
    def shares(self) -> list[float]:
        """The share of all variance along each axis; zeros where all rows are one."""
        return [v / self.total if self.total else 0.0 for v in self.values.tolist()]

    def project(self, rows: Tensor) -> Tensor:
        """Rows (n, width) as places on the axes (n, k), fp32."""
        import torch

        centre, vectors = self.centre.float(), self.vectors.float()
        return torch.matmul(rows.float() - centre, vectors)


@short
@dataclass(frozen=True, slots=True)
class Spread:
    """Where rows lie and how they spread: `count` rows, their `mean` (width,) fp64.

    `scatter` (width, width) fp64 is the sum of (row - mean)(row - mean)'. `left_out` are the
    rows with NaN or infinity, ascending; they count in nothing else.
    """

    count: int
    mean: Tensor
    scatter: Tensor
    left_out: tuple[int, ...]

    def covariance(self, *, centred: bool = True) -> Tensor:
        """(width, width) fp64: of `count` - 1 as numpy.cov, or the mean of row row' about zero."""
        import torch

        if centred:
            return self.scatter / max(self.count - 1, 1)
        return self.scatter / self.count + torch.outer(self.mean, self.mean)

    def axes(self, k: int | None = None, *, centred: bool = True) -> Axes:
        """The `k` axes of greatest variance, or all; about the mean, or about zero.

        Raises UsageError for fewer than one axis, or more than the width.
        """
        import torch

        width = self.mean.numel()
        k = width if k is None else k
        if not 1 <= k <= width:
            raise UsageError(f"{k} axes were asked for; rows of {width} numbers have 1 to {width}")
        values, vectors = torch.linalg.eigh(self.covariance(centred=centred))
        # Rounding takes a variance of zero below it.
        values = values.flip(0).clamp(min=0.0)
        vectors = vectors.flip(1)[:, :k]
        signs = vectors.gather(0, vectors.abs().argmax(0, keepdim=True)).sign()
        centre = self.mean if centred else torch.zeros_like(self.mean)
        return Axes(vectors * signs, values[:k], float(values.sum()), centre)


class Moments:
    """Adds up rows of one width, tile by tile; `spread()` is what they come to.

    Numbers beyond about 1e17 are too large for the squares of fp32 and count as infinite.
    """

    def __init__(self, width: int) -> None:
        import torch

        self._width = width
        self._count = 0
        self._left_out: list[int] = []
        self._centre: Tensor | None = None
        self._sum = torch.zeros(width, dtype=torch.float64)
        self._products = torch.zeros(width, width, dtype=torch.float64)

    def add(self, start: int, rows: Tensor, keep: Tensor | None = None) -> Tensor:
        """Take in rows (n, width), the first of which is row `start` of its table.

        `keep` (n,) bool says which of them count. Returns (n,) bool: which were taken in, being
        kept and finite.
        """
        import torch

        wide = rows.float()
        taken = finite_rows(wide)
        if keep is not None:
            keep = keep.to(torch.bool)
            self._left_out += (start + (keep & ~taken).nonzero().flatten()).tolist()
            taken = taken & keep
        else:
            self._left_out += (start + (~taken).nonzero().flatten()).tolist()
        if not bool(taken.all()):
            wide = wide[taken]
        if wide.shape[0]:
            self._add(wide)
        return taken

    def spread(self) -> Spread:
        """What has been added so far. Raises UsageError where that is no row."""
        import torch

        if self._centre is None:
            bad = len(self._left_out)
            why = f"all {bad:,} rows hold NaN or infinity" if bad else "no row was taken in"
            raise UsageError(f"there is no mean and no spread: {why}")
        offset = self._sum / self._count
        products = self._products.triu() + self._products.triu(1).T
        scatter = products - self._count * torch.outer(offset, offset)
        mean = self._centre.double() + offset
        return Spread(self._count, mean, scatter, tuple(self._left_out))

    def _add(self, rows: Tensor) -> None:
        import torch

        if self._centre is None:
            self._centre = rows.mean(0, dtype=torch.float64).float()
        moved = rows - self._centre
        self._count += rows.shape[0]
        self._sum += moved.sum(0, dtype=torch.float64)
        for left, right in _blocks(self._width):
            self._products[left:right, left:] += torch.matmul(
                moved[:, left:right].T, moved[:, left:]
            )


_BLOCK = 512
"""Columns whose products are taken together: wide enough for the full rate of a product."""


def _blocks(width: int) -> Iterator[tuple[int, int]]:
    """First column and end of each block. Products are symmetric: what is left of one is known."""
    for left in range(0, width, _BLOCK):
        yield left, min(left + _BLOCK, width)


def spread_of(
    tiles: Iterable[tuple[int, Tensor]], width: int, keep: Tensor | None = None
) -> Spread:
    """The spread of tiles as `EmbeddingTable.tiles` hands them out.

    `keep` (rows of the table,) bool says which rows count; None for all. Raises UsageError where
    no row is left.
    """
    moments = Moments(width)
    for start, rows in tiles:
        moments.add(start, rows, None if keep is None else keep[start : start + rows.shape[0]])
    return moments.spread()


_LARGEST = 1e17
"""Twice its square, times the rows of a tile, stays within fp32."""


def finite_rows(rows: Tensor) -> Tensor:
    """(n,) bool: rows (n, width) without NaN, infinity, or numbers whose squares are infinite."""
    # A comparison with NaN is false.
    return (rows.abs() <= _LARGEST).all(1)


QUERIES = 4096
"""Rows whose neighbours are looked for in one pass over the table."""

Told = Callable[[int, int], None]
"""Called with how many rows have their neighbours, and of how many."""


@short
@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """`ids` (n,) int64 are the rows shown, ascending; `places` (n, 2) fp32 where they lie.

    `chosen` says which rows were asked for; those in `not_finite` have no place and are not among
    `ids`. `axes` were fitted on `fitted` rows. `norms` (n,) fp32. `zero` rows are shown, and have
    no neighbours.
    """

    ids: Tensor
    places: Tensor
    norms: Tensor
    axes: Axes
    chosen: RowSample
    fitted: int
    centred: bool
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]

    def __len__(self) -> int:
        """How many rows are shown."""
        return self.ids.numel()


@short
@dataclass(frozen=True, slots=True, eq=False)
class ShownNeighbours:
    """For each of n shown rows its k nearest among them: `at` (n, k) int64, places in `ids`.

    `cosines` (n, k) fp32. -1 and NaN stand for a row without a direction.
    """

    at: Tensor
    cosines: Tensor


def project(
    table: EmbeddingTable,
    *,
    most: int | None = None,
    seed: int = 0,
    centred: bool = True,
    all_rows: bool = False,
) -> Projection:
    """Put up to `most` rows, all or a seeded sample, on the axes of all rows with a token.

    `centred` takes the mean off first. Raises UsageError for tables narrower than two numbers,
    and where no row is left.
    """
    import torch

    if table.width < 2:
        raise UsageError(f"{table.name} is {table.width} wide; a map needs rows of 2 numbers")
    chosen = choose_rows(table, most, seed=seed, all_rows=all_rows)
    counted = choose_rows(table, all_rows=all_rows)
    keep = torch.zeros(table.rows, dtype=torch.bool)
    keep[counted.ids] = True
    moments = Moments(table.width)
    for start, rows in table.tiles():
        moments.add(start, rows, keep[start : start + len(rows)])
    spread = moments.spread()
    axes = spread.axes(2, centred=centred)
    ids, places, norms = _placed(table, axes, chosen)
    lost = set(spread.left_out)
    return Projection(
        ids,
        places,
        norms,
        axes,
        chosen,
        spread.count,
        centred,
        tuple(ids[norms == 0].tolist()),
        tuple(row for row in chosen.ids.tolist() if row in lost),
    )


def nearest(
    table: EmbeddingTable, shown: Projection, k: int, told: Told | None = None
) -> ShownNeighbours:
    """The `k` nearest of every shown row among the shown rows, by cosine over the whole width.

    Exact, ties by row. `told` hears of the progress. Raises UsageError for fewer than one, or
    more than there are other rows with a direction.
    """
    import torch

    able = shown.norms > 0
    ids = shown.ids[able]
    if not 1 <= k < len(ids):
        raise UsageError(
            f"{k} neighbours were asked for; of {len(ids):,} rows with a direction each has 1 to "
            f"{len(ids) - 1:,}"
        )
    among = torch.zeros(table.rows, dtype=torch.bool)
    among[ids] = True
    at = torch.full((len(shown), k), -1)
    cosines = torch.full((len(shown), k), torch.nan)
    place = torch.full((table.rows,), -1)
    place[shown.ids] = torch.arange(len(shown))
    for start in range(0, len(ids), QUERIES):
        own = ids[start : start + QUERIES]
        vectors = table[own.tolist()]
        found = neighbours(table, vectors, k, exclude=[[row] for row in own.tolist()], among=among)
        at[place[own]] = place[found.ids]
        cosines[place[own]] = found.scores.float()
        if told is not None:
            told(start + len(own), len(ids))
    return ShownNeighbours(at, cosines)


def _placed(table: EmbeddingTable, axes: Axes, chosen: RowSample) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, places and norms of the chosen rows that are finite."""
    import torch

    wanted = torch.zeros(table.rows, dtype=torch.bool)
    wanted[chosen.ids] = True
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start, tile in table.tiles():
        ids = wanted[start : start + len(tile)].nonzero().flatten()
        rows = tile[ids].float()
        finite = finite_rows(rows)
        rows, ids = rows[finite], ids[finite]
        parts.append((ids + start, axes.project(rows), torch.linalg.vector_norm(rows, dim=1)))
    ids, places, norms = (torch.cat(part) for part in zip(*parts, strict=True))
    return ids, places, norms
