"""What can be read off a rotary schedule before any model runs: rotations, limits, horizon.

Numbers only, and diagnostics only: none of them is a verdict on a model. Notation as in
`ropewalk.rope.frequencies`: d = rotary_dim, b = base, T = trained length, L = claimed length,
both in tokens; inverse frequencies in radians per token, fp64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.errors import LengthError
from ropewalk.rope.angles import Schedule
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import plain_inv_freq
from ropewalk.rope.spec import RotarySpec, Window
from ropewalk.short import short

ROTATION = 2.0 * math.pi
NEW_ANGLE_TOLERANCE = 1e-9
"""Relative room for rounding before a longer sweep counts as new angles."""


@short
@dataclass(frozen=True, slots=True)
class PairRow:
    """One rotary pair, read at the claimed length.

    `unscaled` and `inv_freq` are radians per token before and after scaling, `divisor` their ratio;
    `wavelength` is tokens per rotation after scaling (infinite for a pair that does not rotate);
    `rotations` are full ones within the trained length, as training saw the pair; `unseen` says
    whether the claimed length shows the pair angles that training did not. None: no length to
    tell by.
    """

    index: int
    unscaled: float
    inv_freq: float
    wavelength: float
    divisor: float
    rotations: float | None
    unseen: bool | None


def pair_rows(
    rotary: RotarySpec, trained: int | None, claimed: int | None, window: Window | None = None
) -> tuple[PairRow, ...]:
    """A row for each of the rotary_dim / 2 pairs, fastest first.

    A pair is unseen when training swept less than a full circle of it and the claimed length
    sweeps further: T f < 2 pi and L f' > T f (relative tolerance 1e-9), with f from
    `trained_inv_freq` and f' the schedule at L. Scores depend on differences of position alone,
    so a layer's window bounds both sweeps: T and L are then at most its reach.

    Raises ScheduleError when the schedule cannot be built.
    """
    built = schedule(rotary, claimed)
    in_training = None if trained is None else trained_inv_freq(rotary, trained, claimed)
    rows = []
    for index, (before, after) in enumerate(zip(built.unscaled, built.inv_freq, strict=True)):
        rotations = unseen = None
        if in_training is not None and trained is not None:
            rotations = trained * in_training[index] / ROTATION
            if claimed is not None:
                reach = [length if window is None else min(length, window.reach)
                         for length in (trained, claimed)]  # fmt: skip
                unseen = _new_angles(reach[0] * in_training[index], reach[1] * after)
        wavelength = ROTATION / after if after > 0.0 else math.inf
        divisor = before / after if after > 0.0 else math.inf
        rows.append(PairRow(index, before, after, wavelength, divisor, rotations, unseen))
    return tuple(rows)


def trained_inv_freq(rotary: RotarySpec, trained: int, claimed: int | None) -> tuple[float, ...]:
    """The frequencies training is taken to have used, radians per token.

    Where the claim is longer than the trained length the scaling came after that training, and
    the base alone is left, but for what belongs to the architecture or was searched with it
    (`in_training` of its record); otherwise it is the schedule as shipped, at T.
    """
    used = rotary.scaling.in_training(claimed is not None and claimed > trained)
    if used is None:
        return plain_inv_freq(rotary.rope_theta, rotary.rotary_dim)
    return used.rescaled(rotary, trained)[0]


def extrapolation_limit(rotary_dim: int, critical: int, base: float) -> float:
    """T_extra = 2 pi b^(d_extra / d): tokens to which a tuned base extrapolates (2310.05209).

    `critical` is d_extra of the first training, `base` the base of the tuning.
    """
    return ROTATION * float(base ** (critical / rotary_dim))


def similarity_horizon(inv_freq: Sequence[float], limit: int, still_pairs: int = 0) -> int | None:
    """The first distance m < `limit` with sum_i cos(m inv_i) < 0, or None (2405.14591).

    Up to it a key like the query is expected to score above a random one. `still_pairs` counts
    channel pairs beside these that do not rotate; each adds cos 0 = 1, as a frequency of 0 does.
    The search is exact to about 1e-10 of the sum: with m = a K + c the cosine of a sum makes each
    block one matrix product in fp64.

    Raises LengthError when `limit` is below 1.
    """
    _positive(limit, "limit")
    turning = [f for f in inv_freq if f != 0.0]
    still_pairs += len(inv_freq) - len(turning)
    if still_pairs >= len(turning):
        return None
    import numpy as np

    frequencies = np.asarray(turning, dtype=np.float64)
    width = min(1024, limit)
    fine = np.outer(frequencies, np.arange(width, dtype=np.float64))
    fine_cos, fine_sin = np.cos(fine), np.sin(fine)
    block = 64  # rows a product: 64 x 1024 sums are half a MB
    starts = np.arange(0, limit, width, dtype=np.float64)
    for first in range(0, len(starts), block):
        coarse = np.outer(starts[first : first + block], frequencies)
        sums = np.cos(coarse) @ fine_cos - np.sin(coarse) @ fine_sin + still_pairs
        below = np.flatnonzero(sums.ravel() < 0.0)
        if below.size:
            found = first * width + int(below[0])
            return found if found < limit else None
    return None


def minimum_base(rotary_dim: int, length: int, *, step: float = 0.002, most: float = 1e12) -> float:
    """The smallest base whose similarity horizon is not before `length` tokens (2405.14591).

    Scanned upwards from `length` in relative steps of `step`, until sum_i cos(m b^(-2i/d)) is
    at least 0 for all 0 <= m < length. The horizon is not monotone in the base, so no bisection
    finds the smallest; a finer step may find a smaller base on a narrow island, and the result
    is within one step above a base where the condition fails. It begins at the length because
    the smallest base tends to length / 0.6165 as d grows, so for heads as models have them no
    smaller one serves.

    A diagnostic, not a verdict: good models have smaller bases than this asks for.
    Raises LengthError for an impossible length or when no base up to `most` serves.
    """
    _positive(length, "length")
    if not 0.0 < step < 1.0:
        raise LengthError(f"the step is {step}; it must be above 0 and below 1, such as 0.002")
    import numpy as np

    base = max(float(length), 2.0)
    inv_freq = plain_inv_freq(base, rotary_dim)
    while (negative := similarity_horizon(inv_freq, length)) is not None:
        failing = True
        while failing:
            base *= 1.0 + step
            if base > most:
                raise LengthError(
                    f"no base up to {most:g} keeps {length} tokens for {rotary_dim} channels; "
                    "rotate more channels, or ask for a shorter length"
                )
            inv_freq = plain_inv_freq(base, rotary_dim)
            # Where one base fails, the next ones mostly do: a few sums spare a whole search.
            near = np.minimum(np.linspace(0.99, 1.02, 64) * negative, length - 1).round()
            failing = bool((np.cos(np.outer(near, inv_freq)).sum(axis=1) < 0.0).any())
    return base


def neighbour_distance(inv_freq: Sequence[float]) -> float:
    """The squared distance between the encodings of positions p and p + 1, for any p.

    Position p as the vector of all (cos p f_i, sin p f_i): its squared distance to the next is
    2 sum_i (1 - cos f_i), computed as 4 sum_i sin^2(f_i / 2), which loses nothing for small f.
    """
    return 4.0 * math.fsum(math.sin(f / 2.0) ** 2 for f in inv_freq)


def local_resolution(built: Schedule) -> float:
    """How far apart neighbours still are: their squared distance over that without scaling.

    1 leaves neighbours as easy to tell apart as training had them; linear scaling by s tends to
    1/s^2, while schedules that spare the fast pairs (yarn, llama3, ntk) stay near 1. Amplitude
    is not counted: it stretches all distances alike, far ones too.
    """
    return neighbour_distance(built.inv_freq) / neighbour_distance(built.unscaled)


def alibi_slopes(heads: int, max_bias: float = 8.0) -> tuple[float, ...]:
    """One slope a head, as the authors' code has them (2108.12409, footnote and code).

    A power of two n: 2^(-max_bias (h+1) / n). Otherwise those of the next lower power of two,
    then every other one of the next higher. The paper's text has one geometric series instead.
    """
    _positive(heads, "number of heads")
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-max_bias * (h + 1) / power) for h in range(power)]
    finer = [2.0 ** (-max_bias * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
    return tuple(slopes + finer[: heads - power])


def _new_angles(trained_sweep: float, claimed_sweep: float) -> bool:
    """Whether a sweep in radians passes what training showed, short of the full circle."""
    return trained_sweep < ROTATION and claimed_sweep > trained_sweep * (1.0 + NEW_ANGLE_TOLERANCE)


def _positive(value: int, what: str) -> None:
    """Refuse counts below 1."""
    if value < 1:
        raise LengthError(f"the {what} is {value}; it must be at least 1")
