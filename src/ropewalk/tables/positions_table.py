"""What a learned position table holds: how alike its positions are, and how far they were trained.

found = measure(open_table("all-MiniLM-L6-v2", "positions"))
found.profile[1], found.spectrum[:2], found.end.effective
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.principal import Moments, finite_rows
from ropewalk.tables.stored import check_rows
from ropewalk.tables.trained_end import Step, TrainedEnd, largest_step, trained_end

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
    step: Step | None

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
