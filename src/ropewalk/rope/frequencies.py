"""From a rotary encoding to inverse frequencies, amplitude and fingerprint, in double precision.

Each formula of scaling stands here and nowhere else. Notation: d = rotary_dim, pair index
i = 0 .. d/2 - 1, inverse frequency base^(-2i/d) in radians a token, s = factor, L = the length
in tokens of the sequence at hand. A schedule that depends on L takes it as an argument; there
is no hidden state.

Convention of YaRN's ramp: linear in the pair index, as its authors' code and every engine have
it. The paper's text makes it linear in turns, which gives other numbers between the same ends.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.errors import ScheduleError
from ropewalk.rope.scaling import (
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    NtkAware,
    PairDivisors,
    Scaling,
    UnknownScaling,
    Unscaled,
    Yarn,
    name_of,
)
from ropewalk.rope.spec import Rotary


@dataclass(frozen=True, slots=True)
class Schedule:
    """The angles of one rotary encoding at one sequence length.

    `inv_freq` and `unscaled` hold rotary_dim / 2 values in radians a token, fp64, slowest pair
    last. `attention_factor` multiplies cos and sin; `attention_rule` says which rule gave it.
    """

    inv_freq: tuple[float, ...]
    unscaled: tuple[float, ...]
    attention_factor: float
    attention_rule: str

    def fingerprint(self) -> str:
        """16 hex digits that are equal exactly when frequencies (fp32) and amplitude are."""
        packed = struct.pack(f"<{len(self.inv_freq)}f", *self.inv_freq)
        return hashlib.sha256(packed + struct.pack("<d", self.attention_factor)).hexdigest()[:16]


def schedule(rotary: Rotary, length: int | None = None) -> Schedule:
    """The angles of `rotary` for a sequence of `length` tokens.

    `length` is needed by schedules that depend on it (dynamic, longrope); without it they are
    given as for a sequence no longer than their anchor, which is how a short prompt sees them.

    Raises ScheduleError when the encoding holds values no schedule can be built from.
    """
    _check(rotary)
    plain = plain_inv_freq(rotary.base, rotary.rotary_dim)
    factor, rule = attention_factor(rotary.scaling)
    return Schedule(scaled_inv_freq(rotary, length), plain, factor, rule)


def plain_inv_freq(base: float, rotary_dim: int) -> tuple[float, ...]:
    """base^(-2i/d) for i = 0 .. d/2 - 1 (RoFormer, 2104.09864, section 3.3)."""
    return tuple(base ** (-2.0 * i / rotary_dim) for i in range(rotary_dim // 2))


def scaled_inv_freq(rotary: Rotary, length: int | None = None) -> tuple[float, ...]:
    """The inverse frequencies after scaling, radians a token; see `schedule`."""
    base, dim, scaling = rotary.base, rotary.rotary_dim, rotary.scaling
    plain = plain_inv_freq(base, dim)
    match scaling:
        case Unscaled():
            return plain
        case Linear(factor=s):
            return tuple(f / s for f in plain)
        case NtkAware(factor=s):
            return plain_inv_freq(ntk_base(base, dim, s), dim)
        case DynamicNtk(factor=s, anchor_length=anchor):
            # Below the anchor the multiplier would fall under 1 and then below 0.
            multiplier = s * max(length or 0, anchor) / anchor - (s - 1.0)
            return plain_inv_freq(ntk_base(base, dim, multiplier), dim)
        case Yarn():
            keep = [1.0 - r for r in yarn_ramp(scaling, base, dim)]
            return tuple(
                f / scaling.factor * (1.0 - k) + f * k for f, k in zip(plain, keep, strict=True)
            )
        case Llama3():
            return tuple(_llama3(f, scaling) for f in plain)
        case LongRope():
            long = length is not None and length > scaling.switch_length
            return _divide(plain, scaling.long_factor if long else scaling.short_factor, "longrope")
        case PairDivisors(divisors=divisors):
            return _divide(plain, divisors, "rope_freqs")
        case UnknownScaling(name=name):
            raise ScheduleError(
                f"scaling type {name!r} is not known here, so its frequencies cannot be computed; "
                "known types: default, linear, ntk, dynamic, yarn, llama3, longrope"
            )


def ntk_base(base: float, rotary_dim: int, factor: float) -> float:
    """base * factor^(d/(d-2)): the last pair is divided by exactly `factor` (2309.00071, 3.1)."""
    if rotary_dim <= 2:
        raise ScheduleError(
            f"NTK-aware scaling needs a rotary dimension above 2, got {rotary_dim}: "
            "with one pair there is no slowest pair to stretch; use linear instead"
        )
    return base * float(factor ** (rotary_dim / (rotary_dim - 2)))


def yarn_bounds(scaling: Yarn, base: float, rotary_dim: int) -> tuple[float, float]:
    """The pair indices between which YaRN's ramp runs (2309.00071, section 3.2, and its code).

    index(r) = d ln(T / (2 pi r)) / (2 ln base), the pair that makes r turns in T tokens; low at
    beta_fast, high at beta_slow, rounded outwards when `truncate`, held within [0, d - 1].

    Raises ScheduleError when the ends cross, which happens for very small T.
    """

    def index(turns: float) -> float:
        span = math.log(scaling.ramp_length / (turns * 2.0 * math.pi))
        return rotary_dim * span / (2.0 * math.log(base))

    low, high = index(scaling.beta_fast), index(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    if high < low:
        raise ScheduleError(
            f"YaRN's ramp runs from pair {low:g} down to {high:g}: a trained length of "
            f"{scaling.ramp_length} tokens is too short for beta_fast {scaling.beta_fast:g} and "
            f"beta_slow {scaling.beta_slow:g} at base {base:g}; check the original length"
        )
    return low, high if high != low else high + 0.001


def yarn_ramp(scaling: Yarn, base: float, rotary_dim: int) -> list[float]:
    """The share of interpolation of each pair: 0 keeps a pair, 1 divides it by the factor."""
    low, high = yarn_bounds(scaling, base, rotary_dim)
    return [min(max((i - low) / (high - low), 0.0), 1.0) for i in range(rotary_dim // 2)]


def yarn_mscale(factor: float, weight: float = 1.0) -> float:
    """0.1 * weight * ln(factor) + 1, and 1 for a factor of 1 or less (2309.00071, section 3.4)."""
    return 1.0 if factor <= 1.0 else 0.1 * weight * math.log(factor) + 1.0


def longrope_amplitude(factor: float, trained_length: int) -> float:
    """sqrt(1 + ln factor / ln trained_length), and 1 for a factor of 1 or less (2402.13753)."""
    if factor <= 1.0:
        return 1.0
    return math.sqrt(1.0 + math.log(factor) / math.log(trained_length))


def attention_factor(scaling: Scaling) -> tuple[float, str]:
    """What multiplies cos and sin, and in words the rule that gave it."""
    match scaling:
        case Yarn(attention_factor=given) | LongRope(attention_factor=given) if given is not None:
            return given, "attention_factor as stated"
        case Yarn(factor=s, mscale=mscale, mscale_all_dim=all_dim) if mscale and all_dim:
            value = yarn_mscale(s, mscale) / yarn_mscale(s, all_dim)
            return value, f"m({s:g}, mscale {mscale:g}) / m({s:g}, mscale_all_dim {all_dim:g})"
        case Yarn(factor=s):
            return yarn_mscale(s), f"0.1 ln {s:g} + 1"
        case LongRope(factor=s, switch_length=trained):
            rule = f"sqrt(1 + ln {s:g} / ln {trained})"
            return longrope_amplitude(s, trained), rule
        case _:
            return 1.0, f"{name_of(scaling)} leaves the amplitude alone"


def _llama3(frequency: float, scaling: Llama3) -> float:
    """One pair of Llama 3.1's rule; strict or inclusive comparison cannot matter (continuous)."""
    wavelength = 2.0 * math.pi / frequency
    turns = scaling.anchor_length / wavelength
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    if turns < low:
        return frequency / scaling.factor
    if turns > high or high == low:
        return frequency
    smooth = (turns - low) / (high - low)
    return (1.0 - smooth) * frequency / scaling.factor + smooth * frequency


def _divide(plain: Sequence[float], divisors: Sequence[float], what: str) -> tuple[float, ...]:
    """Each frequency over its own divisor."""
    if len(divisors) != len(plain):
        raise ScheduleError(
            f"{what} holds {len(divisors)} divisors for {len(plain)} rotary pairs; there must be "
            "one a pair: check the rotary dimension (partial_rotary_factor, head_dim)"
        )
    bad = next((d for d in divisors if not d > 0 or not math.isfinite(d)), None)
    if bad is not None:
        raise ScheduleError(f"{what} holds the divisor {bad}; divisors are positive numbers")
    return tuple(f / d for f, d in zip(plain, divisors, strict=True))


def _check(rotary: Rotary) -> None:
    """Refuse dimensions and numbers that no formula here can take."""
    dim, head = rotary.rotary_dim, rotary.head_dim
    if dim < 2 or dim % 2 or dim > head:
        raise ScheduleError(
            f"rotary_dim is {dim} with head_dim {head}; it must be even, at least 2 and at most "
            "head_dim"
        )
    if not (math.isfinite(rotary.base) and rotary.base > 1.0):
        raise ScheduleError(f"rope_theta is {rotary.base}; the base must be a number above 1")
    factor = getattr(rotary.scaling, "factor", 1.0)
    if not (math.isfinite(factor) and factor > 0.0):
        raise ScheduleError(f"the scaling factor is {factor}; it must be a number above 0")
