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

from ropewalk.short import short
from ropewalk.tables.health.scan import tile_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable


class Indicator(StrEnum):
    """What a row is scored by; less is less trained."""

    NORM = "L2 norm"
    COSINE = "cosine distance"
    COSINE_MEAN = "cosine distance, mean removed"
    COSINE_AXIS = "cosine distance, 1st PC removed"
    DISTANCE = "L2 distance"
    DISTANCE_AXIS = "L2 distance, 1st PC removed"
    BIAS = "output bias"


@short
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
        """The distances of rows (n, width) from the unused mean, (n,) fp64 each.

        NaN where a row, or the unused mean, has no direction once something is taken off.
        """
        import torch

        wide = rows.float()
        unused, mean, axis = self.unused.float(), self.mean.float(), self.axis.float()
        squares, apart, moved = (
            torch.linalg.vector_norm(part, dim=1).double().square()
            for part in (wide, wide - unused, wide - mean)
        )
        along, unused_along = (wide @ axis).double(), self.unused @ self.axis
        unused_square = self.unused.square().sum()
        flat_apart = (apart - (along - unused_along).square()).clamp(min=0.0)
        flat = _rest(squares, along.square())
        unused_flat = _rest(unused_square, unused_along.square())
        return {
            Indicator.COSINE: _cosine_distance(apart, squares, unused_square),
            Indicator.COSINE_MEAN: _cosine_distance(
                apart, moved, (self.unused - self.mean).square().sum()
            ),
            Indicator.COSINE_AXIS: _cosine_distance(flat_apart, flat, unused_flat),
            Indicator.DISTANCE: apart.sqrt(),
            Indicator.DISTANCE_AXIS: flat_apart.sqrt(),
        }


def reference_of(table: EmbeddingTable, unused: Tensor, mean: Tensor, axis: Tensor) -> Reference:
    """The reference of a table whose rows `unused` (rows,) bool are known; one at least.

    `mean` and `axis` (width,) fp64 as in Reference.
    """
    import torch

    total = torch.zeros(table.width, dtype=torch.float64)
    for part in unused.nonzero().flatten().split(tile_rows(table)):
        total += table[part.tolist()].sum(0, dtype=torch.float64)
    return Reference(total / unused.sum(), mean, axis)


def scores_of(table: EmbeddingTable, reference: Reference) -> dict[Indicator, Tensor]:
    """Every row's distances, (rows,) fp64 each; NaN for rows without direction."""
    import torch

    found: dict[Indicator, Tensor] = {}
    for start, rows in table.tiles(tile_rows(table)):
        for indicator, scores in reference.scores(rows).items():
            if indicator not in found:
                found[indicator] = torch.empty(table.rows, dtype=torch.float64)
            found[indicator][start : start + len(rows)] = scores
    return found


_LOST = 1e-5
"""What is left of a square after so much of it is taken off is rounding."""


def _rest(square: Tensor, taken: Tensor) -> Tensor:
    """What is left of squares, NaN where only rounding is."""
    import torch

    left = square - taken
    return torch.where(left > _LOST * square, left, torch.nan)


def _cosine_distance(apart: Tensor, squares: Tensor, to_square: Tensor) -> Tensor:
    """1 - cosine from squares: of the distance (n,), of the rows (n,), and of what it is taken to.

    |w - u|^2 = (|w| - |u|)^2 + 2 |w| |u| (1 - cos), which keeps small distances exact, where 1 -
    cos itself is rounding.
    """
    import torch

    lengths, length = squares.sqrt(), to_square.sqrt()
    turned = (apart - (lengths - length).square()).clamp(min=0.0)
    distance = turned / (2 * lengths * length)
    return torch.where(distance.isfinite(), distance, torch.nan)
