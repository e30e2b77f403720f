"""Another schedule for the same model, named in a few characters: `yarn:2`, `base:500000`.

Only the scaling or the base is replaced; head and rotary dimension, layout and layers stay, and
so does the trained length, also one that is a guess.
A method that needs the trained length takes the one the spec states, or else its claim.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ropewalk.errors import ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.schedules import SCHEDULES, LargerBase, Scaling, Unscaled, Yarn
from ropewalk.rope.spec import Length, PositionSpec, RotarySpec

MOST_FACTOR = 1e6
"""A larger factor is a slip of the keyboard: it turns one token into a million."""

MOST_BASE = 1e15
"""The bound of the configuration readers."""

_BY_NAME: dict[str, type[Scaling]] = {
    record.spelled.rope: record for record in SCHEDULES if record.spelled.rope is not None
}

METHODS = ", ".join(
    name if record.number is None else f"{name}:{record.number}"
    for name, record in _BY_NAME.items()
)


def override(spec: PositionSpec, text: str) -> PositionSpec:
    """The spec with every full-attention rotary group on the schedule that `text` names.

    Groups that see only a window are left alone when others see everything: the window does
    not grow with the context, and models that extend (Gemma 3) leave those layers unscaled.

    Raises ScheduleError for text that names no schedule, for a model without rotary layers, and
    for a model that is scaled already: the text names a whole schedule, and whether its factor
    is meant on top of the model's own or in its place cannot be told.
    """
    record, number = _parse(text)
    rotary = list(spec.rotary_groups())
    if not rotary:
        raise ScheduleError(
            f"--rope {text} needs rotary layers, and this {spec.model_type} model has none whose "
            "schedule is known"
        )
    try:
        scaling = record.asked(number, spec.trained.tokens, spec.claimed.tokens)
    except ScheduleError as error:
        raise ScheduleError(f"--rope {text}: {error}") from error
    unwindowed = [group for group, _ in rotary if group.window is None]
    chosen = unwindowed or [group for group, _ in rotary]
    groups = tuple(
        replace(group, encoding=_apply(group.encoding, scaling, text))
        if group in chosen and isinstance(group.encoding, RotarySpec)
        else group
        for group in spec.groups
    )
    # What the model was trained on does not change with the schedule that it is asked under.
    claimed = _without_factor(spec) if isinstance(scaling, Unscaled) else spec.claimed
    return replace(spec, groups=groups, trained=trained_length(spec), claimed=claimed)


def _without_factor(spec: PositionSpec) -> Length:
    """The claim of a file without its scaling, where the scaling's factor had made it."""
    if spec.claimed.stated:
        return spec.claimed
    originals = {
        rotary.scaling.original_max_position_embeddings
        for _, rotary in spec.rotary_groups()
        if isinstance(rotary.scaling, Yarn)
    }
    stated = (each for each in spec.other_lengths if each.stated and each.tokens in originals)
    return next(stated, spec.claimed)


def _parse(text: str) -> tuple[type[Scaling], float]:
    """The record that a text names, and its number (1 where it takes none)."""
    method, _, number = text.strip().lower().partition(":")
    record = _BY_NAME.get(method)
    form = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|[-+]?inf"
    if record is not None and record.number is None and not number:
        return record, 1.0
    if record is None or record.number is None or not re.fullmatch(form, number, re.ASCII):
        raise ScheduleError(f"--rope {text[:60]!r} names no schedule; known: {METHODS}")
    value = float(number)
    base = record is LargerBase
    most, what = (MOST_BASE, "a base") if base else (MOST_FACTOR, "a factor")
    if not 1.0 < value <= most:
        raise ScheduleError(
            f"--rope {text}: {value:g} is not {what}; it must be above 1 and at most {most:g}"
        )
    return record, value


def _apply(rotary: RotarySpec, scaling: Scaling, text: str) -> RotarySpec:
    source = f"--rope {text}"
    if isinstance(scaling, Unscaled):
        return replace(rotary, scaling=scaling, scaling_source=source)
    if not isinstance(rotary.scaling, Unscaled):
        raise ScheduleError(
            f"--rope {text} would stand on top of {rotary.scaling.name} scaling, which this "
            "model has already; measure the unscaled model with --rope none first"
        )
    if isinstance(scaling, LargerBase):
        return replace(rotary, rope_theta=scaling.rope_theta, rope_theta_source=source)
    changed = replace(rotary, scaling=scaling, scaling_source=source)
    # Refuse here, before a model is loaded, what the formula cannot do.
    schedule(changed)
    return changed
