"""Which axis of position turns which rotary pair, and at which frequency.

Text has one axis. Images and video have several: time, height, width. Each type here says how
the pairs are dealt out to the axes; `laid_out` gives the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ropewalk.errors import ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import Rotary


@dataclass(frozen=True, slots=True)
class OneAxis:
    """Every pair turns by the one position of a token."""


@dataclass(frozen=True, slots=True)
class Chunked:
    """mRoPE in chunks (Qwen2-VL, 2409.12191): the first sections[0] pairs by time, then height, ...

    The sections are those of the rotary spec.
    """


@dataclass(frozen=True, slots=True)
class Interleaved:
    """mRoPE dealt in turns (Qwen3-VL): pair j belongs to axis j mod n while that has pairs left.

    The sections of the rotary spec count the pairs of each axis; what is left over at the slow
    end goes to axis 0. Sections that this dealing cannot give are refused.
    """


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


@dataclass(frozen=True, slots=True)
class LaidOut:
    """For each pair in channel order: radians a token, and the axis whose position turns it."""

    inv_freq: tuple[float, ...]
    axis: tuple[int, ...]
    attention_factor: float


def count_axes(axes: Axes, rotary: Rotary) -> int | None:
    """How many axes position ids carry; None where they carry no axis dimension."""
    match axes:
        case OneAxis():
            return None
        case Axial(axes=count):
            return count
        case Chunked() | Interleaved():
            return len(_sections(rotary))


def choose(rotary: Rotary, axes: Axes | None) -> Axes:
    """`axes`, or one axis where the spec has no sections; checked against the spec.

    Raises ScheduleError for sections without a statement of how they are dealt out, for a
    dealing without sections, and for sections or axes that do not fit the pairs.
    """
    if axes is None:
        if rotary.sections:
            raise ScheduleError(
                f"the encoding has sections {list(rotary.sections)} and nothing says how they are "
                "dealt out to the pairs: pass axes=Chunked() (Qwen2-VL) or axes=Interleaved() "
                "(Qwen3-VL, mrope_interleaved)"
            )
        return OneAxis()
    if isinstance(axes, Chunked | Interleaved) != bool(rotary.sections):
        raise ScheduleError(
            f"{axes} and sections {list(rotary.sections)} do not go together; sections are for "
            "Chunked() and Interleaved(), which need them"
        )
    laid_out(rotary, axes, 1)
    return axes


def laid_out(rotary: Rotary, axes: Axes, length: int | None) -> LaidOut:
    """Frequencies and axes of all pairs at a sequence of `length` tokens.

    Raises ScheduleError when the pairs cannot be dealt out as asked.
    """
    match axes:
        case OneAxis():
            built = schedule(rotary, length)
            return LaidOut(built.inv_freq, (0,) * rotary.pairs, built.attention_factor)
        case Chunked():
            built = schedule(rotary, length)
            axis = tuple(a for a, n in enumerate(_sections(rotary)) for _ in range(n))
            return LaidOut(built.inv_freq, axis, built.attention_factor)
        case Interleaved():
            built = schedule(rotary, length)
            return LaidOut(
                built.inv_freq, _dealt(_sections(rotary), rotary.pairs), built.attention_factor
            )
        case Axial():
            return _axial(rotary, axes, length)


def _sections(rotary: Rotary) -> tuple[int, ...]:
    """The sections up to the last that has pairs; GGUF files state four, the last often 0."""
    used = max((i for i, n in enumerate(rotary.sections) if n), default=-1)
    return rotary.sections[: used + 1]


def _dealt(sections: tuple[int, ...], pairs: int) -> tuple[int, ...]:
    """The axis of each pair when axes take turns."""
    count = len(sections)
    axis = tuple(j % count if j < count * sections[j % count] else 0 for j in range(pairs))
    given = tuple(axis.count(a) for a in range(count))
    if given != sections:
        raise ScheduleError(
            f"sections {list(sections)} cannot be dealt out in turns over {pairs} pairs, which "
            f"would give {list(given)}: axis 0 takes what is left over, so it must be the longest"
        )
    return axis


def _axial(rotary: Rotary, axes: Axial, length: int | None) -> LaidOut:
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
