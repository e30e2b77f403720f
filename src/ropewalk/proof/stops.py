"""Where the reading of a haystack with gaps pauses: at each gap, and where a length ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ropewalk.proof.cells import Branch, Gapped, Prompt
from ropewalk.proof.progress import CellKind, Work, kind_of
from ropewalk.short import short

_NEAR = 16
"""Tokens that are rather read once more for each prompt than the haystack stopped for one."""


@short
@dataclass(frozen=True, slots=True)
class Placed:
    """A prompt with gaps, and how it lies in its haystack."""

    prompt: Prompt
    branch: Branch

    @property
    def needle(self) -> tuple[Sequence[int], int]:
        """The ids of its needle, and the first position id of the gap where it stands."""
        at = self.branch.at or 0
        return self.prompt.token_ids[at : at + self.branch.size], self.branch.haystack.gap(at)

    def asking(self, cut: int) -> tuple[int, ...]:
        """The ids behind the first `cut` tokens of the haystack."""
        return self.prompt.token_ids[cut + self.branch.size :]


def haystacks(prompts: Iterable[Prompt]) -> list[list[Placed]]:
    """Prompts with gaps, those of one haystack together."""
    groups: dict[Gapped, list[Placed]] = defaultdict(list)
    for prompt in prompts:
        if prompt.branch is not None:
            groups[prompt.branch.haystack].append(Placed(prompt, prompt.branch))
    return list(groups.values())


@short
@dataclass(frozen=True, slots=True)
class Stop:
    """Where the reading of a haystack pauses: before the token `at`.

    There the needles of `needles` are read, and what ends there is asked.
    """

    at: int
    needles: list[Placed] = field(default_factory=list)
    asked: list[Placed] = field(default_factory=list)


def stops(prompts: Sequence[Placed]) -> list[Stop]:
    """The stops of one haystack, in its order.

    The prompts of a length are asked at one place, but for one that has to go on much earlier.
    """
    found: dict[int, Stop] = {}
    by_length: dict[int, list[Placed]] = defaultdict(list)
    for placed in prompts:
        by_length[placed.prompt.cell.length].append(placed)
        if (at := placed.branch.at) is not None:
            found.setdefault(at, Stop(at)).needles.append(placed)
    for each in by_length.values():
        latest = max(placed.branch.cut for placed in each)
        near = [placed for placed in each if placed.branch.cut >= latest - _NEAR]
        cut = min(placed.branch.cut for placed in near)
        for placed in each:
            at = min(cut, placed.branch.cut)
            found.setdefault(at, Stop(at)).asked.append(placed)
    return [found[at] for at in sorted(found)]


def pieces_of(prompts: Sequence[Placed]) -> Iterator[tuple[int, int]]:
    """What is read for one haystack's prompts: (tokens before, tokens)."""
    before = 0
    for stop in stops(prompts):
        yield before, stop.at - before
        before = stop.at
        for placed in stop.needles:
            yield before, placed.branch.size
        for placed in stop.asked:
            yield before, len(placed.asking(before))


def works_of(prompts: Sequence[Placed]) -> dict[CellKind, Work]:
    """What each kind of cell costs; the haystack is charged to the first asked behind it."""
    works: dict[CellKind, Work] = {}
    unread = before = 0
    for stop in stops(prompts):
        unread += stop.at - before
        before = stop.at
        for placed in stop.asked:
            own = placed.branch.size + len(placed.asking(before))
            works[kind_of(placed.prompt.cell)] = (before - unread, unread + own)
            unread = 0
    return works
