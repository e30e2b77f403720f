"""Pearson's and Spearman's correlation, in double precision.

Spearman's is Pearson's of the ranks, equal values sharing the mean of theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def pearson(one: Tensor, other: Tensor) -> float | None:
    """The correlation of two vectors (n,); None where one of them does not vary, or n < 2."""
    x, y = one.double(), other.double()
    x, y = x - x.mean(), y - y.mean()
    spread = float(x.norm() * y.norm())
    if len(x) < 2 or not spread > 0.0:
        return None
    return max(-1.0, min(1.0, float(x @ y) / spread))


def spearman(one: Tensor, other: Tensor) -> float | None:
    """The correlation of the ranks of two vectors (n,); None as for `pearson`."""
    return pearson(ranks(one), ranks(other))


def ranks(values: Tensor) -> Tensor:
    """Ranks (n,) fp64 from 1; equal values have the mean of the ranks that they take up."""
    import torch

    _, group, counts = torch.unique(values, return_inverse=True, return_counts=True)
    last = torch.cumsum(counts, 0).double()
    mean: Tensor = last - (counts.double() - 1) / 2
    return mean[group]
