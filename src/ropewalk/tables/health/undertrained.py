"""Candidates for tokens that training hardly touched, each with its scores and the reason.

After Land & Bartolo, "Fishing for Magikarp", arXiv 2405.05417: where the output head is a table of
its own, the norm of the input row comes first, and distances to the mean of known-unused rows are
taken in the head; where the two are one, the distances in it. Rows of unused tokens get the same
small pushes in every step, so that they end up near each other; a row near their mean was hardly
used either (section 3.2). The distances are taken of the rows as they are, without the mean of all
rows, and without their first principal component, which hides the rest in some tables. (The mean
of all rows cancels out of an L2 distance.) Whether a candidate is one only a model's answers can
tell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.health.scan import Scan, tile_rows
from ropewalk.tables.health.unused import KnownUnused, UnusedSource

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

LOWEST = 0.02
"""The share of tokens that the paper goes on to verify (section 3.3)."""

CAVEAT = (
    "These are candidates, not verdicts: weight decay shrinks unused rows in some models and "
    "spares rows behind the vocabulary in others, reserved tokens may have been trained after "
    "all, and rare is not broken"
)


@short
@dataclass(frozen=True, slots=True)
class IndicatorScore:
    """One indicator of one row: its value, and the share of tokens that score no more.

    Both None where the row has no direction, as the indicator looks at it.
    """

    indicator: str
    value: float | None
    share: float | None


@short
@dataclass(frozen=True, slots=True)
class UndertrainedToken:
    """A token and why it is a candidate; `scores` has the ranking indicator first."""

    row: int
    label: str
    kind: str
    reason: str
    scores: tuple[IndicatorScore, ...]


@short
@dataclass(frozen=True, slots=True)
class Undertrained:
    """Candidates among `ranked` tokens, lowest first by `ranked_by`, then by row.

    `tensor` is the table in which distances were taken, None where there was nothing to take them
    to. `cohesion` is the mean cosine of the known-unused rows with their mean: far below 1, the
    mean stands for none of them. `lowest` tokens are in the lowest LOWEST by `ranked_by`, and
    `agreed` of them by every indicator that judges: all but the norm, which tells little where
    input and output are one table and there are distances.
    """

    ranked: int
    ranked_by: str
    tensor: str | None
    unused: int
    sources: tuple[UnusedSource, ...]
    cohesion: float | None
    lowest: int
    agreed: int
    candidates: tuple[UndertrainedToken, ...]
    caveat: str = CAVEAT


@short
@dataclass(frozen=True)
class Head:
    """The table in which distances are taken, the mean of its rows, and their first axis.

    `mean` (width,) fp64, and `axis` (width,) fp64, the unit vector of widest spread. `own` says
    that it is not the input table. `bias` (rows,) is added to its scores, None for none.
    """

    table: EmbeddingTable
    mean: Tensor
    axis: Tensor
    own: bool = False
    bias: Tensor | None = None


def undertrained_of(
    found: Scan,
    head: Head,
    unused: KnownUnused,
    top: int,
    unreachable: Collection[int] = (),
) -> Undertrained | None:
    """Rank the tokens of `found` that are not known to be unused; None where none is left.

    `head` has as many rows as the table of `found`. `unreachable` are rows of tokens that their
    tokenizer never makes; they are ranked too, and their reason says so.
    """
    import torch

    scored = {Indicator.NORM: found.norms}
    cohesion = None
    if unused.count:
        reference = reference_of(head.table, unused.mask, head.mean, head.axis)
        distances = scores_of(head.table, reference)
        known = 1 - distances[Indicator.COSINE][unused.mask]
        known = known[known.isfinite()]
        cohesion = float(known.mean()) if len(known) else None
        scored |= distances
    if head.bias is not None:
        scored[Indicator.BIAS] = head.bias
    ranked = found.counted(all_rows=False) & ~unused.mask
    order = _order({i: s for i, s in scored.items() if bool(s[ranked].isfinite().any())}, head)
    if not order:
        return None
    rows = (ranked & scored[order[0]].isfinite()).nonzero().flatten()
    columns = [scored[indicator][rows].double() for indicator in order]
    shares = [_shares(values) for values in columns]
    judges = [at for at, i in enumerate(order) if head.own or not at or i is not Indicator.NORM]
    low = torch.stack([shares[at] <= LOWEST for at in judges])
    by = torch.argsort(columns[0], stable=True)[:top].tolist()
    made = []
    for place in by:
        scores = tuple(
            IndicatorScore(i.value, _number(values[place]), _number(share[place]))
            for i, values, share in zip(order, columns, shares, strict=True)
        )
        row = int(rows[place])
        judging = [scores[at] for at in judges]
        reason = _reason(judging, len(rows), unused.count, row in unreachable)
        label = found.table.label(row)
        made.append(UndertrainedToken(row, label, found.kind(row), reason, scores))
    return Undertrained(
        len(rows),
        order[0].value,
        head.table.name if unused.count else None,
        unused.count,
        unused.sources,
        cohesion,
        int(low[0].sum()),
        int(low.all(0).sum()),
        tuple(made),
    )


def _order(scored: Collection[Indicator], head: Head) -> list[Indicator]:
    """The indicators that there are, the one to rank by first."""
    first = [Indicator.COSINE_AXIS, Indicator.COSINE_MEAN, Indicator.COSINE, Indicator.DISTANCE]
    by = [Indicator.NORM, *first] if head.own else [*first, Indicator.NORM]
    return [i for i in dict.fromkeys([*by, *Indicator]) if i in scored]


def _shares(values: Tensor) -> Tensor:
    """For each value (n,) the share of values that are no more; NaN for what is not finite."""
    import torch

    known = values.isfinite()
    up = values[known].sort().values
    shares = torch.searchsorted(up, values, right=True).double() / max(len(up), 1)
    return torch.where(known, shares, torch.nan)


def _number(value: Tensor) -> float | None:
    return float(value) if bool(value.isfinite()) else None


def _reason(scores: Sequence[IndicatorScore], tokens: int, unused: int, unreachable: bool) -> str:
    first = scores[0]
    low = sum(score.share is not None and score.share <= LOWEST for score in scores)
    to = f" to the mean of {unused:,} known-unused rows" if "distance" in first.indicator else ""
    more = tokens - round((first.share or 0.0) * tokens)
    parts = [
        f"{first.indicator} {first.value:.4g}{to}; {more:,} of {tokens:,} tokens have more",
        f"in the lowest {LOWEST:.0%} by {low} of {len(scores)} indicators",
        *(["its own tokenizer never makes it"] if unreachable else []),
    ]
    return "; ".join(parts)


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
