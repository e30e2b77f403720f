"""Which axis of position rotates which rotary pair, and at which frequency.

Text has one axis. Images and video have several: time, height, width. Each type here says how
the pairs are dealt out to the axes; `laid_out` gives the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ropewalk.errors import ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.sections import pair_axes, used_sections
from ropewalk.rope.spec import RotarySpec
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class OneAxis:
    """Every pair rotates by the one position of a token."""


@short
@dataclass(frozen=True, slots=True)
class Chunked:
    """mRoPE in chunks (Qwen2-VL): a rotary spec with sections, whose `section_layout` says so."""


@short
@dataclass(frozen=True, slots=True)
class Interleaved:
    """mRoPE dealt in turns (Qwen3-VL): a rotary spec whose `section_layout` is "interleaved"."""


@short
@dataclass(frozen=True, slots=True)
class Axial:
    """Pairs split evenly over `axes` (vision: height, width), one block an axis.

    `ladder` says where an axis takes its frequencies from: "own", the frequencies of a head
    with 1/axes of the channels, the same for every axis (Qwen2-VL's image tower); "dealt", every
    axes-th frequency of the whole head's, so that no two axes share one (Pixtral).
    """

    axes: int = 2
    ladder: Literal["own", "dealt"] = "own"


Axes = OneAxis | Chunked | Interleaved | Axial


@short
@dataclass(frozen=True, slots=True)
class LaidOut:
    """For each pair in channel order: radians per token, and the axis whose position rotates it."""

    inv_freq: tuple[float, ...]
    axis: tuple[int, ...]
    attention_factor: float


def count_axes(axes: Axes, rotary: RotarySpec) -> int | None:
    """How many axes position ids carry; None where they carry no axis dimension."""
    match axes:
        case OneAxis():
            return None
        case Axial(axes=count):
            return count
        case Chunked() | Interleaved():
            return len(used_sections(rotary.sections))


def choose(rotary: RotarySpec, axes: Axes | None) -> Axes:
    """`axes`, or what the spec says of its sections; checked against the spec.

    Raises ScheduleError for a dealing without sections or other than the spec's, and for
    sections or axes that do not fit the pairs.
    """
    stated = _stated(rotary)
    if axes is None:
        return stated
    if axes != stated and (rotary.sections or isinstance(axes, Chunked | Interleaved)):
        raise ScheduleError(
            f"{axes} and sections {list(rotary.sections)} of a {rotary.section_layout!r} layout do "
            f"not go together; leave axes out, which is {stated}, or change the spec's sections "
            "and section_layout"
        )
    laid_out(rotary, axes, 1)
    return axes


def _stated(rotary: RotarySpec) -> Axes:
    """What the spec alone says."""
    if not rotary.sections:
        return OneAxis()
    return Interleaved() if rotary.section_layout == "interleaved" else Chunked()


def laid_out(rotary: RotarySpec, axes: Axes, length: int | None) -> LaidOut:
    """Frequencies and axes of all pairs at a sequence of `length` tokens.

    Raises ScheduleError when the pairs cannot be dealt out as asked.
    """
    match axes:
        case OneAxis():
            built = schedule(rotary, length)
            return LaidOut(built.inv_freq, (0,) * rotary.pairs, built.attention_factor)
        case Chunked() | Interleaved():
            built = schedule(rotary, length)
            axis = pair_axes(rotary.sections, rotary.section_layout)
            return LaidOut(built.inv_freq, axis, built.attention_factor)
        case Axial():
            return _axial(rotary, axes, length)


def _axial(rotary: RotarySpec, axes: Axial, length: int | None) -> LaidOut:
    """Equal blocks of pairs, one an axis."""
    count = axes.axes
    if count < 1 or rotary.pairs % count:
        raise ScheduleError(
            f"{rotary.pairs} rotary pairs do not split evenly over {count} axes; rotary_dim must "
            f"be a multiple of {2 * max(count, 1)}"
        )
    block = rotary.pairs // count
    axis = tuple(a for a in range(count) for _ in range(block))
    match axes.ladder:
        case "own":
            part = 2 * block
            built = schedule(replace(rotary, head_dim=part, rotary_dim=part), length)
            return LaidOut(built.inv_freq * count, axis, built.attention_factor)
        case "dealt":
            built = schedule(rotary, length)
            dealt = tuple(f for a in range(count) for f in built.inv_freq[a::count])
            return LaidOut(dealt, axis, built.attention_factor)
    raise ScheduleError(f"ladder {axes.ladder!r} is not known; there are 'own' and 'dealt'")
