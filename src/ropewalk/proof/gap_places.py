"""Where the gaps of a haystack go, so that every depth of every length has one.

Places are in position ids from the first of the haystack. A needle at depth d of a haystack of h
positions begins at d * (h - the gap's own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ropewalk.short import short

TOLERANCE = 0.02
"""How far, as a share of a length, a needle may be from the depth it is asked for, where another
length's gap is. Never more than a quarter of the step between depths."""
MOST_GAPS = 0.2
"""The share of a length's haystack that gaps may take. Where more are needed, the same text is read
again with the others: short lengths need that, and are cheap."""


@short
@dataclass(frozen=True, slots=True)
class GapPlaces:
    """Places of the gaps in one reading, ascending, and which of them a length and depth mean."""

    places: tuple[int, ...]
    of: Mapping[tuple[int, float], int]

    @property
    def lengths(self) -> set[int]:
        """The lengths that this reading serves."""
        return {length for length, _ in self.of}


def plan_places(
    rooms: Mapping[int, int], depths: Sequence[float], gap: int
) -> tuple[GapPlaces, ...]:
    """The readings that all depths below 1 need at all lengths, and their places.

    `rooms` says how many positions of haystack a length has, `gap` how many of them a needle takes.
    Longer lengths choose first; a shorter one uses their gaps where they are near enough, and a
    reading of its own where there would be too many of them for it.
    """
    inner = sorted(depth for depth in depths if depth < 1)
    steps = [b - a for a, b in pairwise([*inner, 1.0])]
    share = min([TOLERANCE, *(step / 4 for step in steps)])
    readings: list[dict[tuple[int, float], int]] = []

    def place_in(reading: dict[tuple[int, float], int], length: int, wanted: int) -> int | None:
        taken = {place for (other, _), place in reading.items() if other == length}
        near = [p for p in reading.values() if abs(p - wanted) <= share * rooms[length]]
        free = [p for p in near if p not in taken]
        place = min(free, key=lambda p: (abs(p - wanted), p), default=wanted)
        gaps = {*reading.values(), place}
        for served in {length, *(other for other, _ in reading)}:
            most = max(1, int(MOST_GAPS * rooms[served] / gap))
            if sum(each < rooms[served] for each in gaps) > most:
                return None
        return place

    for length in sorted(rooms, reverse=True):
        for depth in inner:
            wanted = round(depth * max(0, rooms[length] - gap))
            for reading in [*readings, dict[tuple[int, float], int]()]:
                place = place_in(reading, length, wanted)
                if place is not None:
                    break
            reading[length, depth] = wanted if place is None else place
            if not any(reading is each for each in readings):
                readings.append(reading)
    return tuple(map(_ascending, readings or [{}]))


def _ascending(reading: Mapping[tuple[int, float], int]) -> GapPlaces:
    order = sorted(set(reading.values()))
    return GapPlaces(tuple(order), {key: order.index(place) for key, place in reading.items()})
