"""Haystacks with gaps: a trial's text without needles, and where each needle would stand in it.

The prompt of a length is the haystack's beginning up to that length and a question behind it. At
every depth of every length a gap of position ids is left, as long as a needle: the haystack is read
once for all prompts of a trial, a needle is read in its gap, and its question sees the haystack and
this needle alone. Needles of other cells are not there, so that none competes with it, and a cell
has the very needle that its prompt alone has. The needle of depth 1 stands right before its
question, beside the haystack. A few words between haystack and question make up the last tokens of
a length.

A length counts position ids, those of the gaps too. The token ids of a prompt are the tokenizer's
own for its text. So at the cut, where one goes on with a sentence and the other with the question,
ids may differ from one token earlier than the texts do.

Where gaps go is `ropewalk.proof.gap_places`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from ropewalk.errors import LengthError
from ropewalk.proof.cells import Branch, Cell, Control, Gapped, Prompt
from ropewalk.proof.gap_places import GapPlaces, plan_places
from ropewalk.proof.haystack import (
    LONGEST_FILLER,
    SHORTEST_FILLER,
    GeneratedHaystack,
    TextHaystack,
    Without,
    pieces,
)
from ropewalk.proof.needles import Problem
from ropewalk.proof.prompt import PromptFrame, PromptMaker, leaks
from ropewalk.proof.tokens import shared_start
from ropewalk.short import short

_ATTEMPTS, _MOST_ATTEMPTS = 12, 36
_SENTENCES_CUT = 4
"""The most sentences that a haystack is cut earlier, where no words fill what is left."""
_MARGIN = 400
"""Tokens that a haystack goes on beyond what its longest prompt can need: of a user's text they
are what the last gap is filled with, and it takes several sentences to find one that fits."""
_TEXTS_TRIED = 4
"""Draws of a haystack, before its cells are given up."""
_SLACK = 10
"""Tokens left behind the last gap of a prompt: counts of single sentences are off by a few, and
the words that make up the length need room."""


@short
@dataclass(frozen=True, slots=True)
class LaidHaystack:
    """A trial's text for one reading: sentences, the tokens before each, and where gaps are.

    `at` are the indices of the sentences behind gaps, by place; `begins` is the index in `text` of
    the first sentence's first token. `secret` is what the text must not name.
    """

    sentences: tuple[str, ...]
    edges: tuple[int, ...]
    places: GapPlaces
    at: tuple[int, ...]
    text: Gapped
    begins: int
    secret: tuple[str, ...]

    def edge(self, end: int) -> int:
        """Positions of the first `end` sentences, with the gaps before them."""
        return self.edges[end] + self.text.size * self.gaps(end)

    def gaps(self, end: int) -> int:
        """How many gaps are before the last of the first `end` sentences, or further before."""
        return bisect_right(self.at, end - 1)

    def end(self, room: int) -> int:
        """How many sentences are the longest beginning of at most `room` positions; -1 for none.

        What is left can be filled: it is nothing, or enough for a short sentence.
        """
        end = bisect_right(range(len(self.edges)), room, key=self.edge) - 1
        while end >= 0 and 0 < room - self.edge(end) < SHORTEST_FILLER:
            end -= 1
        return end


@short
@dataclass(frozen=True, slots=True)
class GappedMaker:
    """Lays out prompts in haystacks with gaps, for cells of `lengths` and `depths`.

    `single` lays out what is asked alone, and lends its tokenizer, seed, haystack and style. Equal
    settings, equal prompts.
    """

    single: PromptMaker
    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    _kept: dict[int, tuple[LaidHaystack, ...] | LengthError] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __call__(self, cell: Cell) -> Prompt:
        """The prompt of a cell, without a branch where it is not a branch's.

        That is so for other tasks and needles alone, where a length is too short for a gap and text
        around it, and for a tokenizer that joins a needle with what stands beside it. Raises
        LengthError as PromptMaker does.
        """
        if cell.task != "single" or cell.control is Control.NEEDLE_ONLY:
            return self.single(cell)
        try:
            return self._in_haystack(cell)
        except LengthError:
            return self.single(cell)

    def _in_haystack(self, cell: Cell) -> Prompt:
        readings = self.readings(cell.trial)
        if cell.control is Control.NO_NEEDLE or cell.depth == 1:
            # Behind as few gaps as there are where the length ends.
            able = [r for r in readings if cell.length in r.places.lengths] or readings[:1]
            return self._finish(cell, min(able, key=lambda r: len(r.at)), None)
        key = cell.length, cell.depth
        (reading,) = (r for r in readings if key in r.places.of)
        return self._finish(cell, reading, reading.places.of[key])

    def independent(self, cell: Cell) -> Prompt:
        """The same needle asked at the same length and depth, by a prompt of its own.

        Raises LengthError as PromptMaker does.
        """
        return self.single(cell)

    def problem(self, cell: Cell) -> Problem:
        """What a cell asks for: what its prompt alone would."""
        return next(self.single.drawn(cell))

    def readings(self, trial: int) -> tuple[LaidHaystack, ...]:
        """A trial's text with the gaps of each reading, kept.

        Raises LengthError where the user's text is too short.
        """
        if trial not in self._kept:
            self._kept[trial] = self._drawn(trial)
        kept = self._kept[trial]
        if isinstance(kept, LengthError):
            raise kept
        return kept

    def _drawn(self, trial: int) -> tuple[LaidHaystack, ...] | LengthError:
        """The first of some draws that can be laid out; else what stands against the first."""
        errors = []
        for number in range(_TEXTS_TRIED):
            try:
                return self._lay_out(trial, number)
            except LengthError as error:
                errors.append(error)
        return errors[0]

    def _cells(self, trial: int) -> Iterable[Cell]:
        """The cells of a trial that hide a needle in its haystack, or must find none there."""
        for length in self.lengths:
            yield from (Cell(length, depth, trial) for depth in self.depths)
            yield Cell(length, 1.0, trial, Control.END)
            yield Cell(length, 0.0, trial, Control.NO_NEEDLE)

    def _lay_out(self, trial: int, number: int) -> tuple[LaidHaystack, ...]:
        """Draw a trial's text, and leave the gaps of each reading in it, between sentences."""
        single, count = self.single, self.single.tokens.inner
        problems = {cell: self.problem(cell) for cell in self._cells(trial)}
        # Keys and values differ in what they take: a gap holds any of them.
        gap = max(count(each.hidden[0].sentence) for each in problems.values())
        frames = [self._frame(each) for each in problems.values()]
        around = max(frame.tokens for frame in frames)
        secret = tuple(text for each in problems.values() for text in each.secret)
        rooms = {length: length - around for length in self.lengths}
        name = f"{single.seed}/single/{trial}" + (f"/{number}" if number else "")
        source = Without(single.haystack(Random(name)), secret)
        text = [*_taken(source.sentences(), count, max(rooms.values()) + _MARGIN)]
        return tuple(
            self._with_gaps(text, places, rooms, gap, frames[0], secret)
            for places in plan_places(rooms, self.depths, gap)
        )

    def _with_gaps(
        self,
        text: Sequence[str],
        places: GapPlaces,
        rooms: Mapping[int, int],
        gap: int,
        frame: PromptFrame,
        secret: tuple[str, ...],
    ) -> LaidHaystack:
        """The text of one reading: each gap at the boundary nearest to its place.

        On either side, but so that its needle is whole in the shortest prompt that asks for it.
        """
        laid, edges, at = list[str](), [0], list[int]()
        latest = self._latest(places, rooms, gap)
        needed = max(rooms[length] for length in places.lengths or rooms)
        for sentence in text:
            size = self.single.tokens.inner(sentence)
            here = edges[-1] + gap * len(at)
            while len(at) < len(places.places) and (
                places.places[len(at)] <= here + size / 2 or latest[len(at)] < here + size
            ):
                at.append(len(laid))
                here += gap
            if here >= needed + _MARGIN:
                break
            laid.append(sentence)
            edges.append(edges[-1] + size)
        held = edges[-1] + gap * len(at)
        if held < needed or len(at) < len(places.places):
            raise LengthError(f"the haystack holds {held} tokens, and {needed} are needed")
        ids, begins = self._tokenised(frame, laid, at, gap)
        return LaidHaystack(tuple(laid), tuple(edges), places, tuple(at), ids, begins, secret)

    def _tokenised(
        self, frame: PromptFrame, laid: list[str], at: list[int], gap: int
    ) -> tuple[Gapped, int]:
        """The ids of frame and text with the gaps among them, and where the text begins."""
        ids = self.single.tokens.encode(frame.before + " ".join(laid), special=frame.special)
        begins = self.single.framer.begins
        gaps = {index: begins(frame, laid, index, ids) for index in dict.fromkeys(at)}
        starts = tuple(gaps[index] for index in at)
        return Gapped(tuple(ids), starts, gap), begins(frame, laid, 0, ids)

    def _latest(self, places: GapPlaces, rooms: Mapping[int, int], gap: int) -> list[int]:
        """By place, the last position its gap can begin with for all needles to be whole."""
        shortest = [max(rooms.values())] * len(places.places)
        for (length, _), place in places.of.items():
            shortest[place] = min(shortest[place], rooms[length])
        latest: list[int] = []
        following = max(rooms.values())
        for room in reversed(shortest):
            following = min(room - _SLACK, following) - gap
            latest.insert(0, following)
        return latest

    def _frame(self, problem: Problem) -> PromptFrame:
        """With a space before the haystack: its first sentence has the same tokens either way."""
        frame = self.single.framer(problem, self.single.task("single").introduction)
        return replace(frame, before=f"{frame.before} ")

    def _finish(self, cell: Cell, haystack: LaidHaystack, place: int | None) -> Prompt:
        """The haystack's beginning, some words to fill, and the question: `length` in all.

        `place` is which gap the needle goes to, None where to none: then it stands last in the
        prompt, or nowhere without a needle.
        """
        problem = self.problem(cell)
        needle, frame = problem.hidden[0].sentence, self._frame(problem)
        count = self.single.tokens.inner
        nowhere = cell.control is Control.NO_NEEDLE
        beside = [needle] if place is None and not nowhere else []
        index = None if place is None else haystack.at[place]
        room = cell.length - frame.tokens - sum(map(count, beside))
        fillers = self._fillers(cell, haystack)
        best: _Laid | None = None
        # Among endless words those that fit are found in the end; a text may have none.
        attempts = _ATTEMPTS if self.single.sentences is not None else _MOST_ATTEMPTS
        for attempt in range(attempts):
            # Where no words come to what is left, more is left by cutting a sentence earlier.
            earlier = min(attempt // 4, _SENTENCES_CUT)
            end = max(haystack.end(room) - earlier, 0 if index is None else index + 1)
            if haystack.edge(end) > room:
                break
            filling = fillers(end, room - haystack.edge(end))
            tried = self._tried(frame, haystack, _Parts(end, filling, beside, index, needle))
            missing = cell.length - tried.asked_at - frame.budget
            if not leaks(haystack.secret, filling):
                if missing >= 0 and (best is None or missing < best.missing):
                    best = _Laid(missing, tried)
                if missing == 0:
                    break
            room += missing
        if best is None or best.missing > LONGEST_FILLER:
            raise LengthError(f"a length of {cell.length} tokens cannot hold its gaps")
        laid = best.laid
        return Prompt(
            cell=cell,
            token_ids=tuple(laid.ids),
            value_ids=frame.value_ids,
            needle_start=-1 if nowhere else laid.start,
            depth=0.0 if nowhere else self._depth(haystack, laid),
            key=problem.key,
            value=problem.value,
            distractors=(),
            text=laid.text,
            budget=frame.budget,
            branch=laid.branch,
        )

    def _tried(self, frame: PromptFrame, haystack: LaidHaystack, parts: _Parts) -> _Tried:
        """The ids of a prompt and how they lie in the haystack's.

        Raises LengthError for a tokenizer that joins a needle with what stands beside it.
        """
        framer, text, count = self.single.framer, haystack.text, self.single.tokens.inner
        laid = [*haystack.sentences[: parts.end], *parts.filling, *parts.beside]
        start = at = None
        size = 0
        if parts.index is not None:
            at = start = text.gaps[haystack.at.index(parts.index)]
            laid.insert(parts.index, parts.needle)
        words = frame.before + " ".join(laid) + frame.after
        ids = self.single.tokens.encode(words, special=frame.special)
        if at is not None:
            # All but the needle are tokens of the haystack, from which its own are known.
            size = _inserted(ids, text.token_ids, at, count(parts.needle))
            if size > text.size:
                raise LengthError(f"the tokenizer joins {parts.needle!r} with the text around it")
        elif parts.beside:
            start = framer.begins(frame, laid, len(laid) - 1, ids)
        done = at or 0
        cut = done + shared_start(ids[done + size :], text.token_ids[done:])
        # What the haystack goes on with may happen to be the question's first token, or a gap.
        following = haystack.at[haystack.gaps(parts.end) :][:1]
        most = text.gaps[haystack.at.index(following[0])] - 1 if following else cut
        cut = min(cut, most)
        return _Tried(ids, words, Branch(text, cut, at, size), -1 if start is None else start)

    def _depth(self, haystack: LaidHaystack, laid: _Tried) -> float:
        """Which share of the haystack's positions stands before the needle."""
        text, branch = haystack.text, laid.branch
        first = text.gap(haystack.begins)
        if branch.at is None:
            return 1.0
        start = text.gap(branch.at)
        behind = text.position(branch.cut) - start - text.size
        return (start - first) / (start - first + behind) if start > first else 0.0

    def _fillers(self, cell: Cell, haystack: LaidHaystack) -> Callable[[int, int], list[str]]:
        """fillers(end, tokens): sentences of that many tokens to stand behind the cut `end`.

        Of the user's own text they are what follows there.
        """
        count = self.single.tokens.inner
        if self.single.sentences is not None:
            return lambda end, tokens: pieces(
                TextHaystack(haystack.sentences[end:], None), tokens, count
            )
        kind = f"{cell.length}/{cell.depth}/{cell.trial}"
        source = GeneratedHaystack(Random(f"{self.single.seed}/filling/{kind}"))
        return lambda _, tokens: pieces(source, tokens, count)


def _taken(sentences: Iterable[str], count: Callable[[str], int], tokens: int) -> Iterable[str]:
    """The first sentences, as many as come to so many tokens."""
    taken = 0
    for sentence in sentences:
        yield sentence
        taken += count(sentence)
        if taken >= tokens:
            return


_COMPARED = 24
"""Tokens behind a needle by which is told where it ends."""


def _inserted(ids: Sequence[int], without: Sequence[int], at: int, about: int) -> int:
    """How many tokens stand in `ids` before the token `at` of a text that is `without` them.

    About so many; more than any gap where the tokens around them are not the text's own.
    """
    behind = tuple(without[at : at + _COMPARED])
    if tuple(ids[:at]) == tuple(without[:at]):
        for size in sorted(range(max(1, about - 4), about + 5), key=lambda n: abs(n - about)):
            found = tuple(ids[at + size : at + size + _COMPARED])
            if found[: len(behind) // 3] == behind[: len(behind) // 3]:
                return size
    return len(ids)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a prompt is made of: `end` sentences of the haystack, words to fill, what is last.

    `index` is the sentence before which the needle goes, None where it goes before none.
    """

    end: int
    filling: list[str]
    beside: list[str]
    index: int | None
    needle: str


@dataclass(frozen=True, slots=True)
class _Tried:
    """A prompt that was tried: its ids, and how they lie in the haystack."""

    ids: list[int]
    text: str
    branch: Branch
    start: int

    @property
    def asked_at(self) -> int:
        """The position behind its last token."""
        branch = self.branch
        behind = len(self.ids) - branch.size - branch.cut
        return branch.haystack.position(branch.cut) + behind


@dataclass(frozen=True, slots=True)
class _Laid:
    """A try at a prompt, and how many tokens it falls short."""

    missing: int
    laid: _Tried
