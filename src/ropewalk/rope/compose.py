"""One scaling on top of another: done where the result is well defined, refused elsewhere.

What composes: scalings that multiply (linear with linear, linear with a divisor per pair, ntk with
ntk), and a change of base below any scaling. The rest does not, because a rule that was placed
by the plain frequencies or by the trained length means something else on frequencies that are
scaled already, and no engine computes it.
"""

from __future__ import annotations

from dataclasses import replace

from ropewalk.errors import ScheduleError
from ropewalk.rope.schedules import LargerBase, Linear, Ntk, PairDivisors, Scaling, Unscaled
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
                f"{scaling.name} scaling cannot stand on top of {present.name}: "
                f"{_reason(present, scaling)}; begin from the unscaled encoding"
            )


def _reason(present: Scaling, scaling: Scaling) -> str:
    """Why the two do not make one schedule."""
    for each in (present, scaling):
        if each.alone:
            return f"{each.name} {each.alone}"
    return "each would stretch pairs that the other has stretched, by shares that no engine knows"
