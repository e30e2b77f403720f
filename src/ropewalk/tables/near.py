"""`ropewalk.tables.search` for tensors: the rows of a table nearest to a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.kernels.arrays import as_array, as_tensor
from ropewalk.short import short
from ropewalk.tables import search

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable


@short
@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """As `ropewalk.tables.search.Found`, `ids` (q, k) int64 and `scores` (q, k) float64 tensors."""

    ids: Tensor
    scores: Tensor
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]
    ranked: int

    def of(self, query: int) -> list[tuple[int, float]]:
        """The neighbours of one query as (id, score), best first."""
        return list(zip(self.ids[query].tolist(), self.scores[query].tolist(), strict=True))


def neighbours(
    table: EmbeddingTable | Tensor,
    queries: Tensor,
    k: int,
    *,
    exclude: Sequence[Sequence[int]] = (),
    among: Tensor | None = None,
) -> Neighbours:
    """The `k` rows of `table` nearest by cosine to each query, best first.

    `table` is an opened table, or its rows (rows, width) of any floating dtype on the CPU. All
    else, and what is raised, is as in `ropewalk.tables.search.search`.
    """
    import torch

    found = search.search(
        as_array(table) if isinstance(table, torch.Tensor) else table,
        as_array(queries),
        k,
        exclude=exclude,
        among=None if among is None else as_array(among),
    )
    return Neighbours(
        as_tensor(found.ids), as_tensor(found.scores), found.zero, found.not_finite, found.ranked
    )


def unit_rows(vectors: Tensor) -> Tensor:
    """Vectors (n, width) in float64, each of length 1. Raises UsageError for one without direction.

    Scaled by powers of two where squares would over- or underflow.
    """
    return as_tensor(search.unit_rows(as_array(vectors)))


def mapped(table: EmbeddingTable) -> Tensor | None:
    """All rows of a table of plain floats as its file's own pages; None for any other table."""
    pages = table.pages()
    return None if pages is None else as_tensor(pages)
