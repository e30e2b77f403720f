"""Asks many needles of one haystack: it is read once, and each needle as a branch in its gap.

Read up to a gap, the cache is just what a needle there may see, in sliding layers too; the needle's
keys and values are kept, and the haystack goes on without it. Where a length ends, its questions
are asked, each behind the whole haystack and its own needle. Prompts without gaps (a needle by
itself, other tasks) are asked as with shared beginnings.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ropewalk.errors import RopewalkError
from ropewalk.proof.ask import (
    Shared,
    SharingModel,
    Unread,
    answers_of,
    broken,
    expected_work,
)
from ropewalk.proof.cells import Answer, Cell, Gapped, Outcome, Prompt
from ropewalk.proof.plan import CostModel
from ropewalk.proof.progress import Pace, ReadingPace
from ropewalk.proof.reading import Leaf
from ropewalk.proof.stops import Placed, Stop, haystacks, stops, works_of
from ropewalk.proof.subject import Asked, InTime
from ropewalk.short import short


class BranchingModel(SharingModel, Protocol):
    """Whatever reads a haystack with gaps, and needles in them."""

    def read_at(self, ids: Sequence[int], first: int) -> None:
        """Append ids to the path, at position ids from `first` on."""

    def needles(self, needles: Sequence[tuple[Sequence[int], int]]) -> list[Any]:
        """Read needles (ids, first position id) behind the path, which stays; what to ask with."""


@short
@dataclass(frozen=True, slots=True)
class Branching:
    """Asks trial by trial; the haystack of a trial is read once for each schedule."""

    model: BranchingModel
    cost: CostModel | None = None

    def pace(self) -> ReadingPace:
        """What a prompt goes on from has been read before."""
        return ReadingPace(shared=True, cost=self.cost)

    def ahead(self, pace: Pace, first: Callable[[], Sequence[Prompt]]) -> None:
        """What each kind of cell costs, by the first trial's prompts."""
        if isinstance(pace, ReadingPace):
            prompts = [p for p in first() if self.model.fits(p.length) is None]
            pace.works.update(expected_work([p for p in prompts if p.branch is None], self.model))
            for group in _by_schedule(prompts, self.model):
                pace.works.update(works_of(group))

    def ask(self, trials: Iterable[Iterable[Prompt]], in_time: InTime) -> Iterator[Asked]:
        """Answers as the haystack is read: those of the shortest length first."""
        late = False

        def still(tokens: int, start: int) -> bool:
            nonlocal late
            late = late or not in_time(tokens, start)
            return not late

        for prompts in map(list, trials):
            plain = [prompt for prompt in prompts if prompt.branch is None]
            yield from Shared(self.model).ask([plain], still)
            for group in _by_schedule(prompts, self.model):
                if late or not (yield from _Haystack(self.model, still).through(group)):
                    return


def _by_schedule(prompts: Iterable[Prompt], model: SharingModel) -> list[list[Placed]]:
    """Those of one haystack and one schedule together."""
    found: list[list[Placed]] = []
    for each in haystacks(prompts):
        regimes: dict[str, list[Placed]] = defaultdict(list)
        for placed in each:
            regimes[model.regime(placed.prompt.length)].append(placed)
        found.extend(regimes.values())
    return found


class _Haystack:
    """One haystack of one schedule, read from its first token to the end of its last length."""

    def __init__(self, model: BranchingModel, in_time: InTime) -> None:
        self._model, self._in_time = model, in_time
        self._read = 0
        self._unread = Unread()
        self._needles: dict[Cell, Any] = {}

    def through(self, prompts: Sequence[Placed]) -> Generator[Asked, None, bool]:
        """Answers of all prompts; returns whether there was time for all."""
        left: dict[Cell, Placed] = {}
        for placed in prompts:
            reason = self._model.fits(placed.prompt.length)
            if reason is None:
                left[placed.prompt.cell] = placed
            else:
                yield self._unread.asked(placed.prompt, Answer(Outcome.OVERFLOW, None, reason, 0.0))
        if not left:
            return True
        text = next(iter(left.values())).branch.haystack
        try:
            self._model.start(max(placed.prompt.length for placed in left.values()))
            for stop in stops(list(left.values())):
                if not self._in_time(stop.at - self._read, self._read):
                    return False
                self._go_on(text, stop)
                for asked in self._ask(stop):
                    left.pop(asked.prompt.cell)
                    yield asked
        except RopewalkError:
            raise
        except Exception as error:  # noqa: BLE001 - one haystack must not cost the others
            for placed in left.values():
                yield self._unread.asked(placed.prompt, broken(error))
        return True

    def _go_on(self, text: Gapped, stop: Stop) -> None:
        """Read the haystack up to a stop, and the needles there."""
        begun, before = time.perf_counter(), self._read
        while self._read < stop.at:
            # Up to the next gap positions follow each other.
            end = min([gap for gap in text.gaps if self._read < gap < stop.at], default=stop.at)
            self._model.read_at(text.token_ids[self._read : end], text.position(self._read))
            self._read = end
        if stop.needles:
            found = self._model.needles([placed.needle for placed in stop.needles])
            cells = [placed.prompt.cell for placed in stop.needles]
            self._needles.update(zip(cells, found, strict=True))
        self._unread.note(self._read - before, time.perf_counter() - begun)

    def _ask(self, stop: Stop) -> Iterator[Asked]:
        """Ask what ends at a stop, as many at once as there is room for."""
        leaves = [
            Leaf(
                placed.prompt,
                placed.asking(stop.at),
                placed.branch.haystack.position(stop.at),
                self._needles.pop(placed.prompt.cell, None),
            )
            for placed in stop.asked
        ]
        sizes = {placed.prompt.cell: placed.branch.size for placed in stop.asked}
        while leaves:
            batch = leaves[: self._model.together(leaves)]
            for leaf, answer in zip(batch, answers_of(self._model, batch), strict=True):
                own = sizes[leaf.prompt.cell] + len(leaf.ids)
                yield self._unread.asked(leaf.prompt, answer, own)
            del leaves[: len(batch)]
