"""Where the facts of a nested document go: one place may serve several lengths.

Places are in tokens from the first of the haystack. A fact at depth d of a haystack of h tokens
begins at d * (h - its own tokens), so that depth 1 ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ropewalk.short import short

TOLERANCE = 0.02
"""How far, as a share of a length, a fact may be from the depth it is asked for, where another
length's fact stands. Never more than a quarter of the step between depths."""


@short
@dataclass(frozen=True, slots=True)
class Spots:
    """Places that ascend, and which of them is meant by a length and a depth below 1."""

    places: tuple[int, ...]
    of: Mapping[tuple[int, float], int]


def plan_spots(rooms: Mapping[int, int], depths: Sequence[float], fact_tokens: int) -> Spots:
    """The places that all depths below 1 need at all lengths, as few as the tolerance allows.

    `rooms` says how many tokens of haystack a length has, `fact_tokens` about how many of them a
    fact takes. Shorter lengths choose first: there a
    few tokens are more of a depth.
    """
    inner = sorted(depth for depth in depths if depth < 1)
    steps = [b - a for a, b in zip(inner, [*inner[1:], 1.0], strict=True)]
    share = min([TOLERANCE, *(step / 4 for step in steps)])
    places: list[int] = []
    chosen: dict[tuple[int, float], int] = {}
    for length in sorted(rooms):
        taken: set[int] = set()
        for depth in inner:
            wanted = round(depth * max(0, rooms[length] - fact_tokens))
            near = [p for p in places if abs(p - wanted) <= share * rooms[length]]
            free = [p for p in near if p not in taken]
            place = min(free, key=lambda p: (abs(p - wanted), p), default=wanted)
            if place not in places:
                places.append(place)
            taken.add(place)
            chosen[length, depth] = place
    order = sorted(places)
    index = {place: i for i, place in enumerate(order)}
    return Spots(tuple(order), {key: index[place] for key, place in chosen.items()})
