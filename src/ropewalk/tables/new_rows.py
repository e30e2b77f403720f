"""Where the rows of new tokens come from: three types, each of which says what it used.

The mean of the trained rows keeps the model's predictions close to what they were (Hewitt,
"Initializing New Word Embeddings for Pretrained Language Models", 2021): a new token then takes
at most its even share of the probability. Sampling around the mean tells new tokens apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.short import short

TILE_ROWS = 8192
"""Rows that are widened at a time: no second copy of the table is made."""


@short
@dataclass(frozen=True, slots=True)
class RowOrigin:
    """What one row of a resized table was made from: the rows `sources`, or `made` in words."""

    row: int
    made: str
    sources: tuple[int, ...] = ()


class NewRows(Protocol):
    """A way to make rows."""

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """Rows for `ids` from `table` (rows, width) in fp64 (ids, width), and their origins.

        `trained` are the row numbers that statistics may use, int64, ascending.
        """
        ...


@short
@dataclass(frozen=True, slots=True)
class Mean:
    """Every new row is the mean of the trained rows."""

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """As NewRows says. Raises UsageError where there is nothing to average."""
        made = f"the mean of {len(trained)} rows"
        rows = mean_row(table, trained).expand(len(ids), -1)
        return rows.clone(), [RowOrigin(row, made) for row in ids]


@short
@dataclass(frozen=True, slots=True)
class MeanCovariance:
    """Each new row is drawn from N(mean, share x covariance) of the trained rows.

    Drawn along the covariance's own axes, so that fewer rows than channels (a covariance of
    lower rank) draw as well as any; nothing falls back to the mean. A `share` as small as 1e-9
    is lost when rows are rounded to bfloat16: whether they still differ is refused or granted
    by `resize`, after rounding. `seed` makes the draw repeatable on one machine.
    """

    share: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.share) and self.share > 0.0):
            raise UsageError(
                f"share is {self.share}; it multiplies the covariance and must be a number above "
                "0. For no spread at all use Mean()"
            )

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """As NewRows says. Raises UsageError for fewer than two trained rows that differ."""
        mean = mean_row(table, trained)
        covariance = torch.zeros(table.shape[1], table.shape[1], dtype=torch.float64)
        for tile in _tiles(table, trained):
            centred = tile - mean
            covariance += centred.T @ centred
        values, axes = torch.linalg.eigh(covariance / max(len(trained) - 1, 1))
        # What rounding leaves of the directions that the rows do not span.
        spans = values > values[-1] * table.shape[1] * torch.finfo(torch.float64).eps
        if not bool(values[-1] > 0):
            raise UsageError(
                f"the {len(trained)} trained rows do not differ, and have no covariance to draw "
                "from; use Mean()"
            )
        draw = torch.Generator().manual_seed(self.seed)
        rank = int(spans.sum())
        steps = torch.randn(len(ids), rank, generator=draw, dtype=torch.float64)
        rows = mean + steps * (self.share * values[spans]).sqrt() @ axes[:, spans].T
        made = (
            f"drawn around the mean of {len(trained)} rows with {self.share:g} of their "
            f"covariance (rank {rank}, seed {self.seed})"
        )
        return rows, [RowOrigin(row, made) for row in ids]


@short
@dataclass(frozen=True, slots=True)
class FromPieces:
    """Each new row is the mean of the rows into which the old tokenizer cut the new token.

    `pieces` maps every new row to its old token ids; one piece alone is copied, which is how a
    token that stood elsewhere before keeps its row.
    """

    pieces: Mapping[int, Sequence[int]]

    def make(self, table: Tensor, trained: Tensor, ids: range) -> tuple[Tensor, list[RowOrigin]]:
        """As NewRows says. Raises UsageError for rows without pieces and pieces without rows."""
        usable = set(trained.tolist())
        rows: list[Tensor] = []
        origins: list[RowOrigin] = []
        for row in ids:
            sources = tuple(self.pieces.get(row, ()))
            if not sources:
                raise UsageError(f"new row {row} has no pieces; give at least one old token id")
            strange = [piece for piece in sources if piece not in usable]
            if strange:
                raise UsageError(
                    f"new row {row} is to be made from row {strange[0]}, which is no trained row "
                    f"of this table ({len(usable)} of its {table.shape[0]} rows are)"
                )
            rows.append(mean_row(table, torch.tensor(sources)))
            made = "a copy of a row" if len(sources) == 1 else f"the mean of {len(sources)} pieces"
            origins.append(RowOrigin(row, made, sources))
        return torch.stack(rows), origins


def mean_row(table: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the rows `chosen`, fp64 (width,). Raises UsageError for none."""
    if not len(chosen):
        raise UsageError("the table has no trained row to make new rows from; all of it is 0")
    total = torch.zeros(table.shape[1], dtype=torch.float64)
    for tile in _tiles(table, chosen):
        total += tile.sum(0)
    return total / len(chosen)


def _tiles(table: Tensor, chosen: Tensor) -> Iterator[Tensor]:
    """The rows `chosen` in fp64 on the CPU, some thousands at a time."""
    for part in chosen.split(TILE_ROWS):
        yield table[part.to(table.device)].to("cpu", torch.float64)
