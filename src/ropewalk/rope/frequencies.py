"""From a rotary encoding to inverse frequencies, amplitude and the rules that gave them, in fp64.

Each formula of scaling stands here and nowhere else. Notation: d = rotary_dim, pair index
i = 0 .. d/2 - 1, inverse frequency base^(-2i/d) in radians a token, s = factor, L = the length
in tokens of the sequence at hand. A schedule that depends on L takes it as an argument; there
is no hidden state.

Convention of YaRN's ramp: linear in the pair index, as its authors' code and every engine have
it. The paper's text makes it linear in turns, which gives other numbers between the same ends;
that is `NtkByParts`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral

from ropewalk.errors import LengthError, ScheduleError
from ropewalk.rope import checks
from ropewalk.rope.angles import Schedule
from ropewalk.rope.scaling import (
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    Scaling,
    UnknownScaling,
    Unscaled,
    Yarn,
    name_of,
)
from ropewalk.rope.spec import LayerGroup, PositionSpec, RotarySpec

VERY_LONG = 1 << 40
"""A length beyond every switch a schedule may have."""

_Scaled = tuple[tuple[float, ...], tuple[str, ...]]
"""Inverse frequencies and the rules that gave them."""


def frequencies(
    given: PositionSpec | LayerGroup | RotarySpec, length: int | None = None
) -> Schedule:
    """Everything that multiplies or turns, for a sequence of `length` tokens.

    A group brings its softmax rule; a bare encoding has a softmax factor of 1. A spec is taken
    when all of its rotary groups have one schedule. `length` is needed by schedules that depend
    on it (dynamic, longrope); without it they are given as for a sequence no longer than their
    anchor, which is how a short prompt sees them.

    Raises ScheduleError when no schedule can be built, and LengthError for an impossible length.
    """
    match given:
        case RotarySpec():
            return schedule(given, length)
        case LayerGroup():
            return _of_group(given, length)
        case PositionSpec():
            return _of_spec(given, length)
    raise ScheduleError(
        f"a schedule is computed from a spec, a group of its layers or a RotarySpec, not from "
        f"{type(given).__name__}"
    )


def schedule(rotary: RotarySpec, length: int | None = None) -> Schedule:
    """The angles of one encoding; see `frequencies`, which also knows the softmax of a group."""
    whole = isinstance(length, Integral) and not isinstance(length, bool)
    if length is not None and not (whole and 0 <= length <= checks.MOST_LENGTH):
        raise LengthError(f"the length is {length!r}; it must be a whole number from 0 to 2^53")
    plain = plain_inv_freq(rotary.rope_theta, rotary.rotary_dim)
    inv_freq, fired = _scaled(rotary, length)
    factor, rule = attention_factor(rotary.scaling)
    if not 0.0 < factor <= checks.MOST:
        raise ScheduleError(f"cos and sin would be multiplied by {factor:g} ({rule}); check mscale")
    rules = (*fired, f"cos and sin x {factor:.8g}: {rule}")
    return Schedule(inv_freq, plain, factor, rule, rules=rules)


def plain_inv_freq(base: float, rotary_dim: int) -> tuple[float, ...]:
    """base^(-2i/d) for i = 0 .. d/2 - 1 (RoFormer, 2104.09864, section 3.3)."""
    return tuple(base ** (-2.0 * i / rotary_dim) for i in range(rotary_dim // 2))


def scaled_inv_freq(rotary: RotarySpec, length: int | None = None) -> tuple[float, ...]:
    """The inverse frequencies after scaling, radians a token; see `schedule`."""
    return _scaled(rotary, length)[0]


def _scaled(rotary: RotarySpec, length: int | None) -> _Scaled:
    """The inverse frequencies after scaling, and which rules made them."""
    base, dim, scaling = rotary.rope_theta, rotary.rotary_dim, rotary.scaling
    plain = plain_inv_freq(base, dim)
    match scaling:
        case Unscaled():
            return plain, (f"base {base:.10g}, nothing scaled",)
        case Linear(factor=s):
            return tuple(f / s for f in plain), (f"every pair divided by {s:g}",)
        case LargerBase(rope_theta=larger):
            return plain_inv_freq(larger, dim), (f"base {larger:.10g} in place of {base:.10g}",)
        case Ntk(factor=s):
            larger = ntk_base(base, dim, s)
            told = f"base raised to {larger:.8g}, so that the slowest pair is divided by {s:g}"
            return plain_inv_freq(larger, dim), (told,)
        case DynamicNtk():
            return _dynamic(scaling, base, dim, length)
        case NtkByParts():
            return _by_parts(scaling, plain)
        case Yarn():
            keep = [1.0 - r for r in yarn_ramp(scaling, base, dim)]
            return _blend(plain, scaling.factor, keep), _ramp_rules(scaling, base, dim)
        case Llama3():
            return _llama3_table(scaling, plain)
        case LongRope(original_max_position_embeddings=switch):
            long = length is not None and length > switch
            divisors = scaling.long_factor if long else scaling.short_factor
            told = f"the {'long' if long else 'short'} factors, " + (
                f"{length} tokens being {'more' if long else 'no more'} than {switch}"
                if length is not None
                else f"as for up to {switch} tokens"
            )
            return _divide(plain, divisors), (told,)
        case PairDivisors(divisors=divisors):
            told = f"a divisor a pair, from {min(divisors):g} to {max(divisors):g}"
            return _divide(plain, divisors), (told,)
        case Proportional():
            return _proportional(scaling, plain, rotary.head_dim)
        case UnknownScaling(name=name):
            raise ScheduleError(
                f"scaling type {name!r} is not known here, so its frequencies cannot be computed; "
                "known types: default, linear, ntk, dynamic, yarn, llama3, longrope, proportional"
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

    low, high = _ramp_ends(scaling, base, rotary_dim)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    if high < low:
        raise ScheduleError(
            f"YaRN's ramp runs from pair {low:g} down to {high:g}: a trained length of "
            f"{scaling.original_max_position_embeddings} tokens is too short for beta_fast "
            f"{scaling.beta_fast:g} and beta_slow {scaling.beta_slow:g} at base {base:g}; "
            "check the original length"
        )
    return low, high if high != low else high + 0.001


def _ramp_ends(scaling: Yarn, base: float, rotary_dim: int) -> tuple[float, float]:
    """The ends of YaRN's ramp before they are held within the table."""

    def index(turns: float) -> float:
        span = math.log(scaling.original_max_position_embeddings) - math.log(turns * 2.0 * math.pi)
        return rotary_dim * span / (2.0 * math.log(base))

    low, high = index(scaling.beta_fast), index(scaling.beta_slow)
    return (math.floor(low), math.ceil(high)) if scaling.truncate else (low, high)


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
        case LongRope(factor=s, original_max_position_embeddings=trained):
            rule = f"sqrt(1 + ln {s:g} / ln {trained})"
            return longrope_amplitude(s, trained), rule
        case _:
            return 1.0, f"{name_of(scaling)} leaves the amplitude alone"


def _of_group(group: LayerGroup, length: int | None) -> Schedule:
    """A group's schedule with its softmax factor."""
    if not isinstance(group.encoding, RotarySpec):
        raise ScheduleError(
            f"the layers {group.name!r} are no complete rotary encoding but "
            f"{type(group.encoding).__name__}, so they have no frequencies"
        )
    factor, rule = group.softmax.factor, group.softmax.rule
    checks.number(f"the softmax factor of {group.name!r}", factor, least=0.0, above=True,
                  remedy="1 leaves the scores as they are")  # fmt: skip
    built = schedule(group.encoding, length)
    rules = (*built.rules, f"softmax scale x {factor:.8g}: {rule}")
    return replace(built, softmax_factor=factor, rules=rules)


def _of_spec(spec: PositionSpec, length: int | None) -> Schedule:
    """The schedule that all rotary groups of a spec share."""
    built = {group.name: _of_group(group, length) for group, _ in spec.rotary_groups()}
    if not built:
        raise ScheduleError(f"this {spec.model_type} model has no complete rotary encoding")
    if len({each.fingerprint() for each in built.values()}) > 1:
        raise ScheduleError(
            f"this {spec.model_type} model has several schedules ({', '.join(built)}); ask for "
            "that of one of spec.groups"
        )
    return next(iter(built.values()))


def _dynamic(scaling: DynamicNtk, base: float, dim: int, length: int | None) -> _Scaled:
    """A base that grows with the sequence beyond its anchor (2309.00071, section 3.3)."""
    s, anchor = scaling.factor, scaling.max_position_embeddings
    # Below the anchor the multiplier would fall under 1 and then below 0.
    multiplier = s * max(length or 0, anchor) / anchor - (s - 1.0)
    larger = ntk_base(base, dim, multiplier)
    if length is None or length <= anchor:
        told = f"base {base:.10g} as it is, up to {anchor} tokens"
    else:
        told = (
            f"dynamic multiplier {s:g} x {length} / {anchor} - {s - 1.0:g} = {multiplier:.8g} "
            f"raises the base to {larger:.8g}"
        )
    return plain_inv_freq(larger, dim), (told,)


def _ramp_rules(scaling: Yarn, base: float, dim: int) -> tuple[str, ...]:
    """Where YaRN's ramp runs, and which of its ends had to be held."""
    low, high = yarn_bounds(scaling, base, dim)
    ends = "rounded outwards" if scaling.truncate else "not rounded"
    rules = [
        f"ramp over the pair index from {low:.6g} to {high:.6g}, {ends}: pairs before it kept, "
        f"pairs after it divided by {scaling.factor:g}"
    ]
    raw_low, raw_high = _ramp_ends(scaling, base, dim)
    if raw_low < 0:
        rules.append(f"the ramp would begin at pair {raw_low:.6g} and is held at 0")
    if raw_high > dim - 1:
        rules.append(f"the ramp would end at pair {raw_high:.6g} and is held at {dim - 1}")
    if max(raw_low, 0) == min(raw_high, dim - 1):
        rules.append("both ends fall on one pair: 0.001 is added to the upper one")
    return tuple(rules)


def _by_parts(scaling: NtkByParts, plain: Sequence[float]) -> _Scaled:
    """The paper's ramp: clip((r - beta_slow) / (beta_fast - beta_slow), 0, 1) is kept."""
    low, high = scaling.beta_slow, scaling.beta_fast
    keep = [
        _share(scaling.original_max_position_embeddings * f / (2.0 * math.pi), low, high)
        for f in plain
    ]
    told = (
        f"ramp over turns in {scaling.original_max_position_embeddings} tokens: pairs above "
        f"{high:g} kept, below {low:g} divided by {scaling.factor:g}"
    )
    return _blend(plain, scaling.factor, keep), (told,)


def _llama3_table(scaling: Llama3, plain: Sequence[float]) -> _Scaled:
    """Llama 3.1's rule; strict or inclusive comparison cannot matter (continuous)."""
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = [
        _share(scaling.original_max_position_embeddings * f / (2.0 * math.pi), low, high)
        for f in plain
    ]
    kept, divided = sum(k >= 1.0 for k in keep), sum(k <= 0.0 for k in keep)
    told = (
        f"{kept} pairs kept, {len(keep) - kept - divided} blended, {divided} divided by "
        f"{scaling.factor:g}"
    )
    return _blend(plain, scaling.factor, keep), (told,)


def _share(turns: float, low: float, high: float) -> float:
    """How much of a pair is kept: 0 below `low` turns, 1 above `high`, linear between."""
    if turns < low:
        return 0.0
    if turns > high or high == low:
        return 1.0
    return (turns - low) / (high - low)


def _blend(plain: Sequence[float], factor: float, keep: Sequence[float]) -> tuple[float, ...]:
    """Each frequency kept by its share, and divided by `factor` for the rest."""
    return tuple(f / factor * (1.0 - k) + f * k for f, k in zip(plain, keep, strict=True))


def _divide(plain: Sequence[float], divisors: Sequence[float]) -> tuple[float, ...]:
    """Each frequency over its own divisor."""
    return tuple(f / d for f, d in zip(plain, divisors, strict=True))


def live_pairs(scaling: Proportional, head_dim: int) -> int:
    """How many pairs turn under p-RoPE: int(share * head_dim // 2), as Gemma 4 counts."""
    return int(scaling.partial_rotary_factor * head_dim // 2)


def _proportional(scaling: Proportional, plain: Sequence[float], head_dim: int) -> _Scaled:
    """The fastest pairs over `factor`, and zero for those that stand still."""
    live = live_pairs(scaling, head_dim)
    told = f"the first {live} of {len(plain)} pairs turn, the others stand still"
    if scaling.factor != 1.0:
        told += f"; every pair divided by {scaling.factor:g}"
    turning = tuple(f / scaling.factor for f in plain[:live])
    return turning + (0.0,) * (len(plain) - live), (told,)


def schedule_fingerprint(spec: PositionSpec) -> str:
    """16 hex digits for the schedules of all rotary groups, short and very long together."""
    digest = hashlib.sha256()
    for group, _ in spec.rotary_groups():
        for length in (None, VERY_LONG):
            digest.update(f"{group.layers} {frequencies(group, length).fingerprint()}".encode())
    return digest.hexdigest()[:16]
