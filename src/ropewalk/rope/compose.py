"""One scaling on top of another: done where the result is well defined, refused elsewhere.

What composes: scalings that multiply (linear with linear, linear with a divisor a pair, ntk with
ntk), and a change of base below any scaling. The rest does not, because a rule that was placed
by the plain frequencies or by the trained length means something else on frequencies that are
scaled already, and no engine computes it.
"""

from __future__ import annotations

from dataclasses import replace

from ropewalk.errors import ScheduleError
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
from ropewalk.rope.spec import RotarySpec


def compose(rotary: RotarySpec, scaling: Scaling) -> RotarySpec:
    """The encoding with `scaling` applied on top of the one that it has.

    Raises ScheduleError, with the reason, where that means nothing.
    """
    match rotary.scaling, scaling:
        case _, Unscaled():
            return rotary
        case Unscaled(), _:
            return replace(rotary, scaling=scaling)
        case Linear(factor=first), Linear(factor=second):
            return replace(rotary, scaling=Linear(first * second))
        case (Linear(factor=factor), PairDivisors(divisors=divisors)) | (
            PairDivisors(divisors=divisors),
            Linear(factor=factor),
        ):
            return replace(rotary, scaling=PairDivisors(tuple(d * factor for d in divisors)))
        case Ntk(factor=first), Ntk(factor=second):
            return replace(rotary, scaling=Ntk(first * second))
        case LargerBase(), LargerBase():
            return replace(rotary, scaling=scaling)
        case LargerBase(rope_theta=base), _:
            return replace(rotary, rope_theta=base, scaling=scaling)
        case Linear() | Ntk(), LargerBase(rope_theta=base):
            # Both are the same divisor or the same power of the base, whatever the base is.
            return replace(rotary, rope_theta=base)
        case present, _:
            raise ScheduleError(
                f"{name_of(scaling)} scaling cannot stand on top of {name_of(present)}: "
                f"{_reason(present, scaling)}; begin from the unscaled encoding"
            )


def _reason(present: Scaling, scaling: Scaling) -> str:
    """Why the two do not make one schedule."""
    for each in (present, scaling):
        if (why := _alone(each)) is not None:
            return f"{name_of(each)} {why}"
    return "each would stretch pairs that the other has stretched, by shares that no engine knows"


def _alone(scaling: Scaling) -> str | None:
    """Why a scaling takes no other beside it, or None where that depends on the other."""
    match scaling:
        case Yarn() | NtkByParts() | Llama3():
            return "chooses its pairs by the turns that unscaled frequencies make in training"
        case LongRope():
            return "holds divisors that were searched for the plain frequencies at two lengths"
        case DynamicNtk():
            return "changes its base with the length, so that the other would change with it"
        case PairDivisors():
            return "already holds the whole rule of each pair, of which only the result is known"
        case Proportional():
            return "belongs to the architecture: it says which pairs turn at all"
        case UnknownScaling():
            return "is not known here"
        case _:
            return None
