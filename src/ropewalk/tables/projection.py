"""A table's rows on its two widest axes, with each row's norm and nearest rows.

The axes are those of all rows that count, in one pass; the places are of the rows that are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.near import neighbours
from ropewalk.tables.principal import Axes, Moments, finite_rows
from ropewalk.tables.sample import Chosen, choose_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

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
    chosen: Chosen
    fitted: int
    centred: bool
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]

    def __len__(self) -> int:
        """How many rows are shown."""
        return self.ids.numel()


@short
@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
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


def nearest(table: EmbeddingTable, shown: Projection, k: int, told: Told | None = None) -> Nearest:
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
    return Nearest(at, cosines)


def _placed(table: EmbeddingTable, axes: Axes, chosen: Chosen) -> tuple[Tensor, Tensor, Tensor]:
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
