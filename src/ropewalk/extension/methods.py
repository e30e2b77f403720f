"""Ways to stretch a rotary model to a longer context; each makes a whole spec.

A method takes the lengths and returns schedule, factor, base and both lengths together, so that
none of them can be written without the others. How a schedule stretches is said by its record
(`ropewalk.rope.schedules`), and no formula stands here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ropewalk import __version__
from ropewalk.errors import ScheduleError
from ropewalk.rope import lengths
from ropewalk.rope.frequencies import schedule, schedule_fingerprint
from ropewalk.rope.schedules import SCHEDULES, SEARCH, LargerBase, LongRope, Scaling
from ropewalk.rope.spec import Extended, Length, PositionSpec, RotarySpec
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Method:
    """A schedule that is put on a model: by its record's own rule, or with numbers that are given.

    `name` is that of extend --method. `base` takes the place of the critical base. `divisors`,
    fastest pair first, take the place of longrope's critical factors; for a search they serve every
    length, with `amplitude` on cos and sin.
    """

    name: str
    schedule: type[Scaling]
    base: float | None = None
    divisors: tuple[float, ...] | None = None
    amplitude: float | None = None

    def scaling(self, rotary: RotarySpec, trained: int, target: int) -> Scaling:
        """What it puts on an unscaled encoding. Raises ScheduleError for impossible values."""
        if self.base is not None:
            return LargerBase(self.base)
        if self.divisors is None:
            return self.schedule.stretch(rotary, trained, target)
        made = LongRope.beyond(self.divisors, trained, target)
        if self.amplitude is None:
            return made
        # Two equal lists: the same divisors at every length.
        return replace(made, short_factor=self.divisors, attention_factor=self.amplitude)


def searched(divisors: tuple[float, ...], amplitude: float = 1.0) -> Method:
    """Divisors at every length, and an amplitude on cos and sin, as a search found them."""
    return Method(SEARCH, LongRope, divisors=divisors, amplitude=amplitude)


CLOSED_FORMS = tuple(
    Method(record.spelled.method, record)
    for record in SCHEDULES
    if record.spelled.method is not None
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
    the distances there are those that it rotates farthest. Made for a longer one it reads the
    target better, and short text a little worse.
    """

    method: Method
    headroom: float = 1.0

    @property
    def name(self) -> str:
        """The method's, with the headroom behind it where there is one."""
        return self.method.name + ("" if self.headroom == 1 else f" x{self.headroom:g}")


class Stretches:
    """The schedules that a command considers for one model and target, each built once."""

    def __init__(self, spec: PositionSpec, target: int) -> None:
        self.spec, self.target = spec, target
        self._built: dict[Stretch, PositionSpec] = {}

    def by(self, stretch: Stretch) -> PositionSpec:
        """The spec under one of them. Raises ScheduleError as `extended`."""
        if stretch not in self._built:
            self._built[stretch] = extended(
                self.spec, self.target, stretch.method, stretch.headroom
            )
        return self._built[stretch]


def extended(
    spec: PositionSpec, target: int, method: Method, headroom: float = 1.0
) -> PositionSpec:
    """The spec stretched to `target` tokens: every layer that sees everything rotates anew.

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
    scaling = method.scaling(rotary, trained, target)
    if isinstance(scaling, LargerBase):
        base = scaling.rope_theta
        changed = replace(rotary, rope_theta=base, rope_theta_source=source)
    else:
        changed = replace(rotary, scaling=scaling, scaling_source=source)
    schedule(changed, target)
    return changed


def against(plain: RotarySpec, changed: RotarySpec, length: int) -> tuple[tuple[float, ...], float]:
    """The divisors by which `plain` rotates as `changed` at a length, and the amplitude."""
    before, after = schedule(plain, length), schedule(changed, length)
    pairs = zip(before.inv_freq, after.inv_freq, strict=True)
    return tuple(a / b if b else math.inf for a, b in pairs), after.attention_factor
