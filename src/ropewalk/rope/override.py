"""Another schedule for the same model, named in a few characters: `yarn:2`, `base:500000`.

Only the scaling or the base is replaced; head and rotary dimension, layout and layers stay, and
so does the trained length, also one that is a guess.
A method that needs the trained length takes the one the spec states, or else its claim.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ropewalk.errors import ScheduleError
from ropewalk.rope.compose import compose
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.scaling import (
    UNSCALED,
    DynamicNtk,
    Linear,
    Ntk,
    Scaling,
    Unscaled,
    Yarn,
    name_of,
)
from ropewalk.rope.spec import Length, PositionSpec, RotarySpec

MOST_FACTOR = 1e6
"""A larger factor is a slip of the keyboard: it turns one token into a million."""

MOST_BASE = 1e15
"""The bound of the configuration readers."""

METHODS = "yarn:FACTOR, linear:FACTOR, ntk:FACTOR, dynamic:FACTOR, base:THETA, none"


def override(spec: PositionSpec, text: str) -> PositionSpec:
    """The spec with every full-attention rotary group on the schedule that `text` names.

    Groups that see only a window are left alone when others see everything: the window does
    not grow with the context, and models that extend (Gemma 3) leave those layers unscaled.

    Raises ScheduleError for text that names no schedule, for a model without rotary layers, and
    for a model that is scaled already: the text names a whole schedule, and whether its factor
    is meant on top of the model's own or in its place cannot be told (`ropewalk.rope.compose`
    does the first).
    """
    method, value = _parse(text)
    rotary = list(spec.rotary_groups())
    if not rotary:
        raise ScheduleError(
            f"--rope {text} needs rotary layers, and this {spec.model_type} model has none whose "
            "schedule is known"
        )
    unwindowed = [group for group, _ in rotary if group.window is None]
    chosen = unwindowed or [group for group, _ in rotary]
    groups = tuple(
        replace(group, encoding=_apply(group.encoding, method, value, spec, text))
        if group in chosen and isinstance(group.encoding, RotarySpec)
        else group
        for group in spec.groups
    )
    # What the model was trained on does not change with the schedule that it is asked under.
    return replace(spec, groups=groups, trained=trained_length(spec))


def _parse(text: str) -> tuple[str, float]:
    method, _, number = text.strip().lower().partition(":")
    wrong = ScheduleError(f"--rope {text[:60]!r} names no schedule; known: {METHODS}")
    if method == "none" and not number:
        return method, 1.0
    if method not in {"yarn", "linear", "ntk", "dynamic", "base"}:
        raise wrong
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|[-+]?inf", number, re.ASCII):
        raise wrong
    value = float(number)
    most, what = (MOST_BASE, "a base") if method == "base" else (MOST_FACTOR, "a factor")
    if not 1.0 < value <= most:
        raise ScheduleError(
            f"--rope {text}: {value:g} is not {what}; it must be above 1 and at most {most:g}"
        )
    return method, value


def _apply(
    rotary: RotarySpec, method: str, value: float, spec: PositionSpec, text: str
) -> RotarySpec:
    source = f"--rope {text}"
    if method == "none":
        return replace(rotary, scaling=UNSCALED, scaling_source=source)
    if not isinstance(rotary.scaling, Unscaled):
        raise ScheduleError(
            f"--rope {text} would stand on top of {name_of(rotary.scaling)} scaling, which this "
            "model has already; measure the unscaled model with --rope none first"
        )
    if method == "base":
        return replace(rotary, rope_theta=value, rope_theta_source=source)
    scaling: Scaling
    if method == "yarn":
        scaling = Yarn(value, _anchor(spec.trained, spec.claimed, text))
    elif method == "dynamic":
        # As transformers has it: nothing changes up to what the model claims.
        scaling = DynamicNtk(value, _anchor(spec.claimed, spec.trained, text))
    else:
        scaling = Linear(value) if method == "linear" else Ntk(value)
    changed = replace(compose(rotary, scaling), scaling_source=source)
    # Refuse here, before a model is loaded, what the formula cannot do.
    schedule(changed)
    return changed


def _anchor(first: Length, second: Length, text: str) -> int:
    """The first of two lengths that the model states."""
    length = first.tokens or second.tokens
    if length is None:
        raise ScheduleError(
            f"--rope {text} needs the trained length, and this model states none; "
            "use linear, ntk or base"
        )
    return length
