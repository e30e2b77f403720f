"""How rotary pairs are dealt out to several position axes (mRoPE): in chunks, or in turns."""

from __future__ import annotations

from typing import Literal

from ropewalk.errors import ScheduleError

SectionLayout = Literal["chunked", "interleaved"]
"""How sections are dealt out to the pairs, fastest pair first.

"chunked" (Qwen2-VL, 2409.12191): the first sections[0] pairs by time, the next by height, ...
"interleaved" (Qwen3-VL): pair j belongs to axis j mod n while that has pairs left; what is left
over at the slow end goes to axis 0.
"""


def used_sections(sections: tuple[int, ...]) -> tuple[int, ...]:
    """The sections up to the last that has pairs; GGUF files state four, the last often 0."""
    used = max((i for i, n in enumerate(sections) if n), default=-1)
    return sections[: used + 1]


def pair_axes(sections: tuple[int, ...], layout: SectionLayout) -> tuple[int, ...]:
    """The axis of each pair, as many as the sections sum to.

    Raises ScheduleError for sections that cannot be dealt out in turns.
    """
    used = used_sections(sections)
    if layout == "chunked":
        return tuple(axis for axis, count in enumerate(used) for _ in range(count))
    axes = in_turns(used, sum(used))
    given = tuple(axes.count(axis) for axis in range(len(used)))
    if given != used:
        raise ScheduleError(
            f"sections {list(used)} cannot be dealt out in turns over {sum(used)} pairs, which "
            f"would give {list(given)}: axis 0 takes what is left over, so it must be the longest"
        )
    return axes


def in_turns(sections: tuple[int, ...], pairs: int) -> tuple[int, ...]:
    """The axis of each pair when axes take turns, whatever counts come of it."""
    count = len(sections)
    return tuple(j % count if j < count * sections[j % count] else 0 for j in range(pairs))
