"""From a rotary encoding to inverse frequencies, amplitude and the rules that gave them, in fp64.

Each formula of scaling stands in its record (`ropewalk.rope.schedules`). A schedule that depends
on the length of the sequence at hand takes it as an argument; there is no hidden state.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from numbers import Integral

from ropewalk.errors import LengthError, ScheduleError
from ropewalk.rope import checks
from ropewalk.rope.angles import Schedule
from ropewalk.rope.schedules import plain_inv_freq
from ropewalk.rope.spec import LayerGroup, PositionSpec, RotarySpec

VERY_LONG = 1 << 40
"""A length beyond every switch a schedule may have."""


def frequencies(
    given: PositionSpec | LayerGroup | RotarySpec, length: int | None = None
) -> Schedule:
    """Everything that multiplies or rotates, for a sequence of `length` tokens.

    A group brings its softmax rule; a bare encoding has a softmax factor of 1. A spec is taken
    when all of its rotary groups have one schedule. `length` is needed by schedules that depend
    on it (dynamic, longrope); without it they are given as for a sequence so short that they do
    not change, which is how a short prompt sees them.

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
    inv_freq, fired = rotary.scaling.rescaled(rotary, length)
    factor, rule = rotary.scaling.amplitude()
    if not 0.0 < factor <= checks.MOST:
        raise ScheduleError(f"cos and sin would be multiplied by {factor:g} ({rule}); check mscale")
    rules = (*fired, f"cos and sin x {factor:.8g}: {rule}")
    return Schedule(inv_freq, plain, factor, rule, rules=rules)


def scaled_inv_freq(rotary: RotarySpec, length: int | None = None) -> tuple[float, ...]:
    """The inverse frequencies after scaling, radians per token; see `schedule`."""
    return rotary.scaling.rescaled(rotary, length)[0]


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


def schedule_fingerprint(spec: PositionSpec) -> str:
    """16 hex digits for the schedules of all rotary groups, short and very long together."""
    digest = hashlib.sha256()
    for group, _ in spec.rotary_groups():
        for length in (None, VERY_LONG):
            digest.update(f"{group.layers} {frequencies(group, length).fingerprint()}".encode())
    return digest.hexdigest()[:16]
