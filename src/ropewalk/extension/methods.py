"""Ways to stretch a rotary model to a longer context, as values; each makes a whole spec.

A method takes the lengths and returns schedule, factor, base and both lengths together, so that
none of them can be written without the others. s = target / trained length, both in tokens. No
formula of a schedule stands here: those are in `ropewalk.rope`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from ropewalk import __version__
from ropewalk.errors import ScheduleError
from ropewalk.rope import lengths
from ropewalk.rope.diagnostics import critical_base, critical_dimension
from ropewalk.rope.frequencies import schedule, schedule_fingerprint
from ropewalk.rope.scaling import (
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    Scaling,
    Yarn,
)
from ropewalk.rope.spec import Extended, Length, PositionSpec, RotarySpec
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Interpolate:
    """Every pair divided by s (position interpolation, 2306.15595, section 3.2)."""

    name: ClassVar[str] = "linear"


@short
@dataclass(frozen=True, slots=True)
class NtkAware:
    """A base by which the slowest pair is divided by s (2309.00071, section 3.1)."""

    name: ClassVar[str] = "ntk"


@short
@dataclass(frozen=True, slots=True)
class ByParts:
    """Pairs chosen by their turns, the paper's ramp, no amplitude (2309.00071, section 3.2)."""

    name: ClassVar[str] = "ntk-by-parts"


@short
@dataclass(frozen=True, slots=True)
class YarnByIndex:
    """YaRN as every engine has it: ramp over the pair index, and an amplitude (2309.00071)."""

    name: ClassVar[str] = "yarn"


@short
@dataclass(frozen=True, slots=True)
class LlamaBands:
    """Llama 3.1's bands: 1 and 4 turns in the trained length (its published configuration)."""

    name: ClassVar[str] = "llama3"
    low: float = 1.0
    high: float = 4.0


@short
@dataclass(frozen=True, slots=True)
class LongFactors:
    """A divisor a pair beyond the trained length, none up to it (LongRoPE, 2402.13753).

    `factors` are the divisors, fastest pair first; without any they are `critical_factors`.
    """

    name: ClassVar[str] = "longrope"
    factors: tuple[float, ...] | None = None


@short
@dataclass(frozen=True, slots=True)
class RaisedBase:
    """A larger base; without one, the critical base of the length (2310.05209, section 3)."""

    name: ClassVar[str] = "base"
    base: float | None = None


@short
@dataclass(frozen=True, slots=True)
class SearchedFactors:
    """A divisor a pair at every length, and an amplitude on cos and sin, as a search found them."""

    name: ClassVar[str] = "search"
    divisors: tuple[float, ...]
    amplitude: float = 1.0


Method = (
    Interpolate
    | NtkAware
    | ByParts
    | YarnByIndex
    | LlamaBands
    | LongFactors
    | RaisedBase
    | SearchedFactors
)

CLOSED_FORMS: tuple[Method, ...] = (
    Interpolate(),
    NtkAware(),
    ByParts(),
    YarnByIndex(),
    LlamaBands(),
    LongFactors(),
    RaisedBase(),
)
"""Every method that needs nothing but the lengths, in the order of their tables."""

NAMES = tuple(method.name for method in CLOSED_FORMS)

HEADROOMS = (1.0, 1.25, 1.5, 2.0)
"""How much longer than the target a context may be for which a schedule is made."""


@short
@dataclass(frozen=True, slots=True)
class Stretch:
    """A method, and for how long a context its schedule is made: `headroom` times the target.

    At the very end of the context that it was made for, a schedule without training reads badly:
    the distances there are those that it turns farthest. Made for a longer one it reads the target
    better, and short text a little worse.
    """

    method: Method
    headroom: float = 1.0

    @property
    def name(self) -> str:
        """The method's, with the headroom behind it where there is one."""
        return self.method.name + ("" if self.headroom == 1 else f" x{self.headroom:g}")


def extended(
    spec: PositionSpec, target: int, method: Method, headroom: float = 1.0
) -> PositionSpec:
    """The spec stretched to `target` tokens: every layer that sees everything turns anew.

    Layers with a window are left alone when others have none: a window does not grow with the
    context. The trained length stays what it was and is stated from now on; the claim is `target`,
    whatever the headroom: the schedule is that of `headroom` times the target.

    Raises ScheduleError for a model without rotary layers, and where a formula has no value.
    """
    trained = trained_length(spec)
    rotary = list(spec.rotary_groups())
    if not rotary:
        raise ScheduleError(f"{method.name} needs rotary layers, and {spec.model_type} has none")
    made_for = round(target * headroom)
    open_ones = [group for group, _ in rotary if group.window is None]
    chosen = open_ones or [group for group, _ in rotary]
    groups = tuple(
        replace(group, encoding=stretched(group.encoding, trained, made_for, method))
        if group in chosen and isinstance(group.encoding, RotarySpec)
        else group
        for group in spec.groups
    )
    source = f"extended by {Stretch(method, headroom).name} to {target} tokens"
    longer = replace(
        spec,
        groups=groups,
        trained=Length(trained, f"the length before it was {source}"),
        claimed=Length(target, source),
    )
    base = next(each.rope_theta for group, each in rotary if group in chosen)
    record = Extended(
        f"ropewalk {__version__}",
        method.name,
        trained,
        target,
        made_for,
        base,
        schedule_fingerprint(longer),
    )
    return replace(longer, extended=record)


def trained_length(spec: PositionSpec) -> int:
    """The length that a model was trained on, as an audit has it: the stated one, or the guess.

    Raises ScheduleError where the files state neither.
    """
    tokens = lengths.trained_length(spec).tokens
    if tokens is None:
        raise ScheduleError(
            "this model's files state no length, so that nothing says how far it is to be "
            "stretched; put the length of its training into max_position_embeddings"
        )
    return tokens


def stretched(rotary: RotarySpec, trained: int, target: int, method: Method) -> RotarySpec:
    """One encoding under a method. Raises ScheduleError where its formula has no value."""
    source = f"--method {method.name}"
    if isinstance(method, RaisedBase):
        base = method.base or critical_base(rotary.rope_theta, trained, target)
        changed = replace(rotary, rope_theta=base, rope_theta_source=source)
    else:
        scaling = scaling_of(method, rotary, trained, target)
        changed = replace(rotary, scaling=scaling, scaling_source=source)
    schedule(changed, target)
    return changed


def scaling_of(method: Method, rotary: RotarySpec, trained: int, target: int) -> Scaling:
    """The scaling that a method puts on an unscaled encoding.

    Raises ScheduleError for values that no schedule can have, and for RaisedBase, which is none.
    """
    s = target / trained
    match method:
        case Interpolate():
            return Linear(s)
        case NtkAware():
            return Ntk(s)
        case ByParts():
            return NtkByParts(s, trained)
        case YarnByIndex():
            return Yarn(s, trained)
        case LlamaBands(low=low, high=high):
            return Llama3(s, low, high, trained)
        case LongFactors(factors=given):
            long = given or critical_factors(rotary, trained, target)
            return LongRope((1.0,) * len(long), long, trained, s)
        case SearchedFactors(divisors=divisors, amplitude=amplitude):
            # Two equal lists: the same divisors at every length.
            return LongRope(divisors, divisors, trained, s, amplitude)
    raise ScheduleError(f"{method.name} is a change of base and no scaling")


def critical_factors(rotary: RotarySpec, trained: int, target: int) -> tuple[float, ...]:
    """Divisors that grow as NTK's do up to the critical pair, and are s from there on.

    s^(i / c) for pairs i below c = d_extra / 2, the first pair that made no full turn in training,
    and s for the others: the shape from which LongRoPE2 (2502.20082, section 3) begins its search.
    """
    s = target / trained
    critical = critical_dimension(rotary.rotary_dim, rotary.rope_theta, trained) // 2
    return tuple(s ** (i / critical) if i < critical else s for i in range(rotary.pairs))


def against(plain: RotarySpec, changed: RotarySpec, length: int) -> tuple[tuple[float, ...], float]:
    """The divisors that turn `plain` as `changed` turns at a length, and the amplitude."""
    before, after = schedule(plain, length), schedule(changed, length)
    pairs = zip(before.inv_freq, after.inv_freq, strict=True)
    return tuple(a / b if b else math.inf for a, b in pairs), after.attention_factor
