"""What a learned position table holds: how alike its positions are, and how far they were trained.

found = measure(open_table("all-MiniLM-L6-v2", "positions"))
found.profile[1], found.spectrum[:2], found.end.effective

Training moves neighbouring positions alike, so trained rows lie near the row before them, and
rows that no training text reached lie where they were drawn. The definitions of where the trained
rows end and where training changed step are of this package; neither is published. What they find
is a candidate, not a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.principal import Moments, finite_rows
from ropewalk.tables.stored import check_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

_CHANNELS = 64
"""Channels whose correlations are taken at a time."""


@short
@dataclass(frozen=True, slots=True, eq=False)
class PositionTable:
    """Positions 0 to n - 1 of a table; the `offset` rows before them serve no position.

    `units` (n, width) fp32 are the rows at length 1, zeros where a row has no direction.
    `norms` (n,) fp64, NaN for rows that are not finite. `beside` (n,) fp64: the cosine of each
    row with the one before, of the first with the one after. `profile` (n,) fp64: the mean cosine
    of all pairs at each distance; `centred_profile` the same after the mean of all rows is taken
    off. `spectrum` (width,) fp64: shares of the variance about the mean, largest first.
    `zero` and `not_finite` are positions without a direction.
    """

    offset: int
    units: Tensor
    norms: Tensor
    beside: Tensor
    profile: Tensor
    centred_profile: Tensor
    spectrum: Tensor
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]
    end: TrainedEnd
    step: QuantityStep | None

    @property
    def positions(self) -> int:
        """How many positions have a row."""
        return self.norms.numel()

    @property
    def participation(self) -> float:
        """Axes that carry the variance, were it even: 1 / sum of squared shares."""
        squares = float(self.spectrum.square().sum())
        return 1 / squares if squares else 0.0

    def axes_for(self, share: float) -> int:
        """The fewest axes that carry this share of the variance; 0 where there is none."""
        if not float(self.spectrum.sum()):
            return 0
        return int((self.spectrum.cumsum(0) < share - 1e-12).sum()) + 1

    def similarity(self, at: Sequence[int]) -> Tensor:
        """Cosines (m, m) between the positions `at`; NaN where one has no direction.

        Raises RowError for a position that is not there, UsageError for what is no number.
        """
        import torch

        asked = check_rows(at, self.positions, "the table of positions")
        chosen = self.units[torch.tensor(asked, dtype=torch.int64)]
        found = torch.matmul(chosen, chosen.T).clamp(-1, 1)
        blank = ~chosen.any(1)
        found[blank] = torch.nan
        found[:, blank] = torch.nan
        return found


def measure(table: EmbeddingTable) -> PositionTable:
    """Everything above, of a table of positions.

    Raises UsageError for another kind of table, and for one without two positions.
    """
    if table.role != "positions":
        raise UsageError(
            f"{table.name} is the {table.role} table; positions have a table of theirs"
        )
    offset = table.position_offset
    if table.rows - offset < 2:
        raise UsageError(
            f"{table.name} has {table.rows} rows, {offset} of them before position 0; there is "
            "nothing to compare in fewer than 2 positions"
        )
    return measured(table.whole("stream")[offset:], offset)


def measured(rows: Tensor, offset: int = 0) -> PositionTable:
    """As `measure`, of rows (n, width) that start at position 0.

    Raises UsageError where none is finite.
    """
    import torch

    rows = rows.float()
    finite = finite_rows(rows)
    moments = Moments(rows.shape[1])
    moments.add(0, rows)
    spread = moments.spread()
    norms = torch.linalg.vector_norm(rows.double(), dim=1)
    norms[~finite] = torch.nan
    units = _units(rows, finite)
    beside = (units[1:].double() * units[:-1]).sum(1)
    beside = torch.cat([beside[:1], beside])
    blank = ~units.any(1)
    beside[blank | torch.cat([blank[1:2], blank[:-1]])] = torch.nan
    shares = torch.tensor(spread.axes().shares, dtype=torch.float64)
    end = trained_end(norms, beside, rows.shape[1])
    return PositionTable(
        offset,
        units,
        norms,
        beside,
        mean_by_distance(units),
        mean_by_distance(_units(rows - spread.mean.float(), finite)),
        shares,
        tuple((finite & blank).nonzero().flatten().tolist()),
        spread.left_out,
        end,
        largest_step(norms, beside, end),
    )


def mean_by_distance(units: Tensor) -> Tensor:
    """(n,) fp64: the mean cosine of all pairs of unit rows (n, width) at each distance.

    Zero rows are in no pair; NaN where a distance has none. The sums over all pairs are the
    autocorrelation of each channel, so that n rows take n log n steps and not n squared
    (Wiener-Khinchin).
    """
    import torch

    n, width = units.shape
    summed = torch.zeros(n, dtype=torch.float64)
    for start in range(0, width, _CHANNELS):
        summed += _autocorrelation(units[:, start : start + _CHANNELS].double())
    there = units.any(1).double()[:, None]
    pairs = _autocorrelation(there).round()
    return torch.where(pairs > 0, summed / pairs.clamp(min=1), torch.nan).clamp(-1, 1)


def _autocorrelation(series: Tensor) -> Tensor:
    """(n,) sums of x[i] x[i + d] over i, summed over the columns of (n, channels)."""
    import torch

    n = series.shape[0]
    turned = torch.fft.rfft(series, 2 * n, dim=0)
    power = turned.real.square() + turned.imag.square()
    summed: Tensor = torch.fft.irfft(power.sum(1), 2 * n)
    return summed[:n]


def _units(rows: Tensor, finite: Tensor) -> Tensor:
    import torch

    clean = torch.where(finite[:, None], rows, 0.0)
    norms = torch.linalg.vector_norm(clean, dim=1, keepdim=True)
    return torch.where(norms > 0, clean / norms.clamp(min=torch.finfo(torch.float32).tiny), 0.0)


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
class QuantityStep:
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


def largest_step(norms: Tensor, beside: Tensor, end: TrainedEnd) -> QuantityStep | None:
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


def _step(what: str, values: Tensor) -> QuantityStep | None:
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
    return QuantityStep(
        what, position, before, float(values[position : position + n].nanmedian()), times
    )


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
