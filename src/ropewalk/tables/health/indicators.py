"""Numbers that are low for rows that training hardly moved: Land & Bartolo, arXiv 2405.05417.

Rows of unused tokens get the same small pushes in every step, so that they end up near each other;
a row near their mean was hardly used either (section 3.2). The distances are taken of the rows as
they are, without the mean of all rows, and without their first principal component, which hides
the rest in some tables. (The mean of all rows cancels out of an L2 distance.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ropewalk.tables.health.scan import tile_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.principal import Spread


class Indicator(StrEnum):
    """What a row is scored by; less is less trained."""

    NORM = "L2 norm"
    COSINE = "cosine distance"
    COSINE_MEAN = "cosine distance, mean removed"
    COSINE_AXIS = "cosine distance, 1st PC removed"
    DISTANCE = "L2 distance"
    DISTANCE_AXIS = "L2 distance, 1st PC removed"
    BIAS = "output bias"


@dataclass(frozen=True)
class Reference:
    """The mean of the known-unused rows, and what is taken off rows before they are compared.

    `unused`, `mean` and `axis` (width,) fp64: the mean of the unused rows, that of all counted
    rows, and the unit vector of their widest spread about the mean.
    """

    unused: Tensor
    mean: Tensor
    axis: Tensor

    def scores(self, rows: Tensor) -> dict[Indicator, Tensor]:
        """The distances of rows (n, width) from the unused mean, (n,) fp32 each."""
        wide, unused = rows.float(), self.unused.float()
        mean, axis = self.mean.float(), self.axis.float()
        along, unused_along = wide @ axis, unused @ axis
        apart = (wide - unused).square().sum(1)
        flat = wide - along[:, None] * axis
        flat_unused = unused - unused_along * axis
        return {
            Indicator.COSINE: _cosine_distance(wide, unused),
            Indicator.COSINE_MEAN: _cosine_distance(wide - mean, unused - mean),
            Indicator.COSINE_AXIS: _cosine_distance(flat, flat_unused),
            Indicator.DISTANCE: apart.sqrt(),
            Indicator.DISTANCE_AXIS: (flat - flat_unused).square().sum(1).sqrt(),
        }


def reference_of(table: EmbeddingTable, unused: Tensor, spread: Spread) -> Reference:
    """The reference of a table whose rows `unused` (rows,) bool are known; one at least."""
    import torch

    total = torch.zeros(table.width, dtype=torch.float64)
    for start, rows in table.tiles(tile_rows(table)):
        mask = unused[start : start + len(rows)]
        if bool(mask.any()):
            total += rows[mask].sum(0, dtype=torch.float64)
    return Reference(total / unused.sum(), spread.mean, spread.axes(1).vectors[:, 0])


def scores_of(table: EmbeddingTable, reference: Reference) -> dict[Indicator, Tensor]:
    """Every row's distances, (rows,) fp32 each; NaN for rows without direction."""
    import torch

    parts: dict[Indicator, list[Tensor]] = {}
    for _, rows in table.tiles(tile_rows(table)):
        for indicator, scores in reference.scores(rows).items():
            parts.setdefault(indicator, []).append(scores)
    return {indicator: torch.cat(scores) for indicator, scores in parts.items()}


def _cosine_distance(rows: Tensor, to: Tensor) -> Tensor:
    """1 - cosine, as half the squared distance of unit vectors, which keeps small ones exact."""
    import torch

    units = rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    distance: Tensor = (units - to / torch.linalg.vector_norm(to)).square().sum(1) / 2
    return distance
