"""Candidates for tokens that training hardly touched, each with its scores and the reason.

After Land & Bartolo, "Fishing for Magikarp", arXiv 2405.05417: where the output head is a table of
its own, the norm of the input row comes first, and distances to the mean of known-unused rows are
taken in the head; where the two are one, the distances in it. Whether a candidate is one only a
model's answers can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.health.indicators import Indicator, reference_of, scores_of
from ropewalk.tables.health.scan import Scan
from ropewalk.tables.health.unused import KnownUnused, Source

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
class Score:
    """One indicator of one row: its value, and the share of tokens that score no more.

    Both None where the row has no direction, as the indicator looks at it.
    """

    indicator: str
    value: float | None
    share: float | None


@short
@dataclass(frozen=True, slots=True)
class Candidate:
    """A token and why it is a candidate; `scores` has the ranking indicator first."""

    row: int
    label: str
    kind: str
    reason: str
    scores: tuple[Score, ...]


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
    sources: tuple[Source, ...]
    cohesion: float | None
    lowest: int
    agreed: int
    candidates: tuple[Candidate, ...]
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
            Score(i.value, _number(values[place]), _number(share[place]))
            for i, values, share in zip(order, columns, shares, strict=True)
        )
        row = int(rows[place])
        judging = [scores[at] for at in judges]
        reason = _reason(judging, len(rows), unused.count, row in unreachable)
        label = found.table.label(row)
        made.append(Candidate(row, label, found.kind(row), reason, scores))
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


def _reason(scores: Sequence[Score], tokens: int, unused: int, unreachable: bool) -> str:
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
