"""Where the trained rows of a position table end, and where training changed step.

Training moves neighbouring positions alike, so trained rows lie near the row before them, and
rows that no training text reached lie where they were drawn. Both definitions below are of this
package; none is published. What they find is a candidate, not a verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short

if TYPE_CHECKING:
    from torch import Tensor

SIGMAS = 6.0
"""How many scaled median absolute deviations from the median a row may be."""
LEAST = 0.05
"""The share of the median that a row may be from it at least, so that no table is too even."""
CHANCE_SIGMAS = 4.0
"""Cosines of independent rows spread by 1 / sqrt(width); beyond so many, it is no chance."""
OTHERS_WEIGH = 3
"""How many rows that fall away outweigh one among them that does not."""
STEP_ROWS = 16
"""Rows on either side whose medians make a step."""


@short
@dataclass(frozen=True, slots=True)
class Band:
    """What is usual: the `median`, and how far from it is still usual."""

    median: float
    reach: float


@short
@dataclass(frozen=True, slots=True)
class TrainedEnd:
    """`effective` positions come before the end in which rows fall away; None: cannot be told.

    `chance` is the cosine that independent rows may have, `cosines` and `norms` the usual bands,
    None where no row is nearer to the one before than chance. `apart` are positions before the
    end that fall away too, ascending.
    """

    rows: int
    effective: int | None
    chance: float
    cosines: Band | None
    norms: Band | None
    apart: tuple[int, ...]

    @property
    def definition(self) -> str:
        """How `effective` came about, with the numbers that it came by."""
        if self.effective is None:
            return (
                f"random rows this narrow have cosines up to {self.chance:.2f}, too near those of "
                "trained rows to tell one from the other"
            )
        if self.cosines is None or self.norms is None:
            return (
                f"no stretch of rows is nearer to the row before than chance ({self.chance:.2f} = "
                f"{CHANCE_SIGMAS:g} / sqrt(width)): nothing shows that these rows were trained as "
                "neighbours"
            )
        return (
            f"a row falls away when its cosine with the row before is within chance "
            f"({self.chance:.2f} = {CHANCE_SIGMAS:g} / sqrt(width)) or over "
            f"{self.cosines.reach:.3f} below the median {self.cosines.median:.3f}, or its norm "
            f"over {self.norms.reach:.3g} from the median {self.norms.median:.3g} ({SIGMAS:g} "
            f"scaled median absolute deviations, {LEAST:.0%} of the median at least); effective "
            "are the rows before the end, and the end is that in which rows that fall away most "
            f"outnumber {OTHERS_WEIGH} times the others"
        )


@short
@dataclass(frozen=True, slots=True)
class Step:
    """A place where a row quantity jumps: medians of STEP_ROWS rows `before` and from `position`.

    `times` is the jump in units of the usual reach of such jumps.
    """

    what: str
    position: int
    before: float
    after: float
    times: float


def trained_end(norms: Tensor, beside: Tensor, width: int) -> TrainedEnd:
    """Find the end of the trained rows.

    `norms` (n,) fp64, and `beside` (n,): the cosine of each row with the one before, of the first
    with the one after. NaN stands for rows without a direction, which fall away.
    """
    rows = norms.numel()
    chance = CHANCE_SIGMAS / math.sqrt(width)
    if chance > 0.75 or rows < 2:
        return TrainedEnd(rows, None, chance, None, None, ())
    near = beside > chance
    if int(near.sum()) < min(8, rows):
        return TrainedEnd(rows, 0, chance, None, None, ())
    cosines, usual_norms = _band(beside[near]), _band(norms[near])
    # Comparisons with NaN are false.
    usual = near & (beside >= cosines.median - cosines.reach)
    usual &= (norms - usual_norms.median).abs() <= usual_norms.reach
    falls = (~usual).tolist()
    effective = _end(falls)
    apart = tuple(p for p in range(effective) if falls[p])
    return TrainedEnd(rows, effective, chance, cosines, usual_norms, apart)


def largest_step(norms: Tensor, beside: Tensor, end: TrainedEnd) -> Step | None:
    """The most remarkable jump of norms or neighbour cosines among effective rows.

    None where no jump of medians reaches beyond what is usual for such jumps.
    """
    until = end.effective or 0
    found = [
        step
        for what, values in (("norm", norms), ("cosine with the row before", beside))
        if (step := _step(what, values[:until])) is not None
    ]
    return max(found, key=lambda s: s.times, default=None)


def _step(what: str, values: Tensor) -> Step | None:
    import torch

    n = STEP_ROWS
    if values.numel() < 4 * n:
        return None
    windows = values.unfold(0, n, 1).median(1).values
    jumps = windows[n:] - windows[:-n]
    usual = _band(jumps)
    reach = max(usual.reach, LEAST * abs(float(values.nanmedian())))
    away = torch.nan_to_num((jumps - usual.median).abs())
    at = int(away.argmax())
    times = float(away[at]) / reach
    if times <= 1:
        return None
    # A jump is as large a few rows to either side; the place is where the two sides part most.
    near = range(max(n // 2, at + n // 2), min(values.numel() - n // 2, at + n + n // 2) + 1)
    position = max(near, key=lambda p: (_parted(values, p), -p))
    before = float(values[position - n : position].nanmedian() if position >= n else windows[0])
    return Step(what, position, before, float(values[position : position + n].nanmedian()), times)


def _parted(values: Tensor, position: int) -> float:
    """How much less the two sides of a place spread than both together."""
    from torch import nan_to_num

    half = STEP_ROWS
    left = values[max(position - half, 0) : position]
    right = values[position : position + half]
    whole = values[max(position - half, 0) : position + half]
    spread = [float(nan_to_num(part - part.nanmean()).square().sum()) for part in (left, right)]
    return float(nan_to_num(whole - whole.nanmean()).square().sum()) - sum(spread)


def _band(values: Tensor) -> Band:
    """Median, and SIGMAS deviations as of a normal distribution, LEAST of the median at least."""
    median = float(values.nanmedian())
    deviation = 1.4826 * float((values - median).abs().nanmedian())
    return Band(median, max(SIGMAS * deviation, LEAST * abs(median)))


def _end(falls: list[bool]) -> int:
    """Where the end begins: the start of the best suffix, the number of rows where none is good."""
    best, begin, score = 0, len(falls), 0
    for position in reversed(range(len(falls))):
        score += 1 if falls[position] else -OTHERS_WEIGH
        if score > best:
            best, begin = score, position
    return begin
