"""Which rows of a table take part: all of those with a token, or a seeded sample of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable


@short
@dataclass(frozen=True, slots=True, eq=False)
class RowSample:
    """The rows `ids` (n,) int64, ascending, chosen from `of` rows.

    `seed` is None where all are taken. `bare` rows have no token; they are among the `of` rows
    only where `all_rows` asked for them.
    """

    ids: Tensor
    of: int
    seed: int | None
    bare: int
    all_rows: bool

    def __len__(self) -> int:
        """How many rows were chosen."""
        return self.ids.numel()

    @property
    def line(self) -> str:
        """How many of how many, and by which rule."""
        kind = "rows" if self.all_rows or not self.bare else "rows with a token"
        rule = f"all {self.of:,} {kind}"
        if self.seed is not None:
            rule = (
                f"{len(self):,} of {self.of:,} {kind}, drawn without preference, none twice, "
                f"seed {self.seed}"
            )
        if not self.bare:
            return rule
        if self.all_rows:
            return f"{rule}, {self.bare:,} of them without a token"
        return f"{rule}; {self.bare:,} rows without a token are left out (--all-rows takes them in)"


def choose_rows(
    table: EmbeddingTable, most: int | None = None, *, seed: int = 0, all_rows: bool = False
) -> RowSample:
    """Every row that has a token, or `most` of them, drawn evenly.

    Rows without a token count with `all_rows`; so does every row of a table without a vocabulary.
    Raises UsageError for fewer than one row, and where no row is left to choose from.
    """
    import torch

    if most is not None and most < 1:
        raise UsageError(f"a sample of {most} rows was asked for; it has 1 or more")
    known = None if table.vocabulary is None else table.with_token()
    lacking = 0 if known is None else table.rows - int(known.sum())
    if known is None or all_rows:
        ids = torch.arange(table.rows)
    else:
        ids = torch.from_numpy(known.nonzero()[0])
    of = ids.numel()
    if not of:
        held = f"none of its {table.rows:,} rows has a token" if table.rows else "it has no rows"
        raise UsageError(f"there is nothing to choose from in {table.name}: {held}")
    if most is None or most >= of:
        return RowSample(ids, of, None, lacking, all_rows)
    drawn = torch.randperm(of, generator=generator(seed))[:most].sort().values
    return RowSample(ids[drawn], of, seed, lacking, all_rows)


def generator(seed: int) -> torch.Generator:
    """A generator of its own, so that no draw depends on what was drawn before."""
    import torch

    return torch.Generator().manual_seed(seed)
