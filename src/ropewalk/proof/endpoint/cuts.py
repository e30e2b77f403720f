"""Whether a server that counts too few tokens has cut the prompt: its answers show it.

A count alone shows nothing. Some servers leave out what came from their cache, some count wrongly.
So the prompt is sent again behind a line that was never said, which no cache knows: where all is
counted then, it was the cache, and every prompt goes out with such a line from there on. Where the
count stays low, facts are hidden at the beginning, in the middle and at the end of a text of that
length, and asked for one by one. What is found at the end and not at the beginning was cut there.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from ropewalk.proof.endpoint.client import Client

_SHORTER = 0.8
"""A fact is also asked for in a text of this share of what was counted: it must have been read."""
_AS_MANY = 1.05
"""A further count within this of one that stood for a cut is the same cut."""


class CutPart(StrEnum):
    """What of a prompt is lost."""

    NONE = "nothing"
    BEGINNING = "the beginning"
    MIDDLE = "the middle"
    END = "the end"
    UNKNOWN = "not shown"


Find = Callable[[Client, int, float], bool]
"""find(client, length, depth): whether a fact at that depth of a new text is found."""


@dataclass(slots=True)
class _Seen:
    """Of one server: what low counts stood for. Lengths as they were due, counts as told."""

    cuts: list[tuple[int, int]] = field(default_factory=list)
    whole: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class CutCheck:
    """Finds out what low counts stand for. Safe between threads."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._seen: defaultdict[str, _Seen] = defaultdict(_Seen)

    def known(self, client: Client, length: int, counted: int) -> bool | None:
        """Whether such a prompt was cut, by what was found out before; None where that is open."""
        seen = self._seen[client.url]
        if any(length >= due and counted <= _AS_MANY * told for due, told in seen.cuts):
            return True
        return False if length <= seen.whole else None

    def is_cut(self, client: Client, length: int, counted: int) -> bool:
        """Whether a prompt of `length`, of which only `counted` were counted, was cut.

        Both with nothing from a cache. Raises as `find`.
        """
        seen = self._seen[client.url]
        with seen.lock:
            if (known := self.known(client, length, counted)) is not None:
                return known
            part = lost_part(lambda at, depth: self._find(client, at, depth), length, counted)
            if part in (CutPart.NONE, CutPart.UNKNOWN):
                seen.whole = max(seen.whole, length)
                return False
            seen.cuts.append((length, counted))
            return True


def lost_part(find: Callable[[int, float], bool], length: int, counted: int) -> CutPart:
    """What of a text of `length` tokens is lost, when `counted` of it were counted.

    `find(length, depth)`: whether a fact at that depth of a new text is found.
    """
    end, begins = find(length, 1.0), find(length, 0.0)
    if end and not begins:
        return CutPart.BEGINNING
    if begins and find(length, 0.5):
        return CutPart.NONE
    # What a model cannot find anywhere says nothing of the server.
    able = find(max(1, int(_SHORTER * counted)), 0.5)
    if begins:
        return CutPart.MIDDLE if able else CutPart.UNKNOWN
    return CutPart.END if able else CutPart.UNKNOWN
