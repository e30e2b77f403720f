"""Nested prompts: one document a trial holds a fact for every depth of every length.

The prompt of a length is the document's beginning up to that length and the question for the
fact at the wanted depth. So all prompts of a trial share one text, which is read once, and each
costs its question. Facts of one document are unlike each other (`ropewalk.proof.needles`): they
would be distractors otherwise, and this another test. The fact of depth 1 stands right before its
question, beside the document. A few words between document and question make up the last tokens
of a length.

The token ids of a prompt are the tokenizer's own for its text, as they are for a prompt asked
alone. So at the cut, where one goes on with a sentence and the other with the question, ids may
differ from one token earlier than the texts do.

One place in the document may serve several lengths. Places are in tokens from the first of the
haystack. A fact at depth d of a haystack of h tokens begins at d * (h - its own tokens).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from random import Random
from statistics import median

from ropewalk.errors import LengthError
from ropewalk.proof.cells import Cell, Control, Prompt
from ropewalk.proof.haystack import (
    LONGEST_FILLER,
    SHORTEST_FILLER,
    GeneratedHaystack,
    TextHaystack,
    Without,
    pieces,
)
from ropewalk.proof.needles import Fact, draw_facts
from ropewalk.proof.plan import Make, lay_first
from ropewalk.proof.prompt import PromptFrame, PromptMaker, leaks
from ropewalk.short import short

TOLERANCE = 0.02
"""How far, as a share of a length, a fact may be from the depth it is asked for, where another
length's fact stands. Never more than a quarter of the step between depths."""


@short
@dataclass(frozen=True, slots=True)
class FactPositions:
    """Places that ascend, and which of them is meant by a length and a depth below 1."""

    places: tuple[int, ...]
    of: Mapping[tuple[int, float], int]


def plan_positions(
    rooms: Mapping[int, int], depths: Sequence[float], fact_tokens: int
) -> FactPositions:
    """The places that all depths below 1 need at all lengths, as few as the tolerance allows.

    `rooms` says how many tokens of haystack a length has, `fact_tokens` about how many of them a
    fact takes. Shorter lengths choose first: there a few tokens are more of a depth.
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
    return FactPositions(tuple(order), {key: index[place] for key, place in chosen.items()})


INTRODUCTION = (
    "A long report follows. Some lines in it state facts, one of which will be asked for at the "
    "end."
)
_ATTEMPTS, _MOST_ATTEMPTS = 12, 36
_SENTENCES_CUT = 4
"""The most sentences that a document is cut earlier, where no words fill what is left."""
_PLANNED_WITH = 13
"""Facts that are looked at before places are planned."""
_MARGIN = 400
"""Tokens that a document goes on beyond what its longest prompt can need: of a user's text they
are what the last gap is filled with, and it takes several sentences to find one that fits."""

_DOCUMENTS_TRIED = 4
"""Draws of a document, before its cells are given up."""
_LOOKED_AT = 3
"""Documents that must all be too short before a length is."""
_SLACK = 10
"""Tokens left behind the last fact of a prompt: counts of single sentences are off by a few, and
the words that make up the length need room."""


@short
@dataclass(frozen=True, slots=True)
class LaidDocument:
    """A trial's text: sentences, the tokens before each, and where the facts stand in it.

    `facts` are by position, `at` their index among `sentences`; `last` is the fact of depth 1 by
    length, `absent` stands nowhere.
    """

    sentences: tuple[str, ...]
    edges: tuple[int, ...]
    positions: FactPositions
    facts: tuple[Fact, ...]
    at: tuple[int, ...]
    last: dict[int, Fact]
    absent: Fact
    secret: tuple[str, ...]
    starts: dict[int, int] = field(default_factory=dict)
    """Token index of a sentence's beginning in every prompt that holds it, once it was found."""

    def end(self, room: int) -> int:
        """How many sentences are the longest beginning of at most `room` tokens; -1 for none.

        What is left can be filled: it is nothing, or enough for a short sentence.
        """
        end = bisect_right(self.edges, room) - 1
        while end >= 0 and 0 < room - self.edges[end] < SHORTEST_FILLER:
            end -= 1
        return end

    def own(self, end: int) -> int:
        """How many of the first `end` sentences are the haystack's own."""
        return end - bisect_right(self.at, end - 1)


@short
@dataclass(frozen=True, slots=True)
class DocumentMaker:
    """Lays out nested prompts for cells of `lengths` and `depths`; equal settings, equal prompts.

    `single` lays out what is asked alone, and lends its tokenizer, seed, haystack and style.
    """

    single: PromptMaker
    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    _kept: dict[int, LaidDocument | LengthError] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __call__(self, cell: Cell) -> Prompt:
        """The prompt of a cell; cells of other tasks are laid out alone.

        Raises LengthError when a length cannot hold its facts, or the user's text ends.
        """
        if cell.task != "single":
            return self.single(cell)
        document = self.document(cell.trial)
        fact = self.fact(cell)
        if cell.control is Control.NEEDLE_ONLY:
            return self._alone(cell, fact)
        if cell.control is Control.NO_NEEDLE or cell.depth == 1:
            return self._finish(cell, document, fact, None)
        position = document.positions.of[cell.length, cell.depth]
        return self._finish(cell, document, fact, document.at[position])

    def independent(self, cell: Cell) -> Prompt:
        """The same fact asked at the same length and depth, alone in a haystack.

        Raises LengthError as PromptMaker does.
        """
        return self.single(cell) if cell.task != "single" else self._alone(cell, self.fact(cell))

    def fact(self, cell: Cell) -> Fact:
        """What a cell of the single task asks for. Raises KeyError outside the grid."""
        document = self.document(cell.trial)
        if cell.control in (Control.NEEDLE_ONLY, Control.NO_NEEDLE):
            return document.absent
        if cell.depth == 1:
            return document.last[cell.length]
        return document.facts[document.positions.of[cell.length, cell.depth]]

    def document(self, trial: int) -> LaidDocument:
        """The text of a trial, kept. Raises LengthError where the user's text is too short."""
        if trial not in self._kept:
            self._kept[trial] = self._drawn(trial)
        kept = self._kept[trial]
        if isinstance(kept, LengthError):
            raise kept
        return kept

    def _drawn(self, trial: int) -> LaidDocument | LengthError:
        """The first of some draws that can be laid out; else what stands against the first.

        Other facts leave other sentences of the user's text in.
        """
        errors = []
        for number in range(_DOCUMENTS_TRIED):
            try:
                return self._lay_out(f"{trial}/{number}" if number else f"{trial}")
            except LengthError as error:
                errors.append(error)
        return errors[0]

    def _lay_out(self, name: str) -> LaidDocument:
        """Draw a document's facts and put each where its place is, between sentences."""
        single = self.single
        drawn = draw_facts(Random(f"{single.seed}/facts/{name}"))
        absent = next(drawn)
        # Facts differ in what they and their questions take: planned is with the middle of some.
        some = tuple(islice(drawn, _PLANNED_WITH))
        around = int(median(self._frame(fact).tokens for fact in some))
        size_of_fact = int(median(single.tokens.inner(fact.sentence) for fact in some))
        rooms = {length: length - around for length in self.lengths}
        positions = plan_positions(rooms, self.depths, size_of_fact)
        drawn = chain(some, drawn)
        facts = tuple(islice(drawn, len(positions.places)))
        last = dict(zip(self.lengths, drawn, strict=False))
        known = (absent, *facts, *last.values())
        secret = tuple(text for fact in known for text in (fact.key, fact.value))
        haystack = Without(single.haystack(Random(f"{single.seed}/single/{name}")), secret)
        laid, edges, at = list[str](), [0], list[int]()

        def lay(sentence: str, size: int) -> None:
            laid.append(sentence)
            edges.append(edges[-1] + size)

        count = single.tokens.inner
        needed = max(rooms.values())
        latest = self._latest(positions, facts)
        for sentence in haystack.sentences():
            size = count(sentence)
            # A fact goes to the boundary nearest to its place, on either side, that leaves it whole
            # in the shortest prompt that asks for it.
            while len(at) < len(facts) and (
                positions.places[len(at)] <= edges[-1] + size / 2
                or latest[len(at)] < edges[-1] + size
            ):
                fact = facts[len(at)]
                at.append(len(laid))
                lay(fact.sentence, count(fact.sentence))
            if edges[-1] >= needed + _MARGIN:
                break
            lay(sentence, size)
        if edges[-1] < needed or len(at) < len(facts):
            raise LengthError(
                f"the haystack holds {edges[-1]} tokens of sentences, facts included; a length of "
                f"{max(self.lengths)} needs {needed}: give more text, or shorter lengths"
            )
        return LaidDocument(
            tuple(laid), tuple(edges), positions, facts, tuple(at), last, absent, secret
        )

    def _latest(self, positions: FactPositions, facts: tuple[Fact, ...]) -> list[int]:
        """By position, the last token its fact can begin with for all to be whole where asked."""
        shortest = [max(self.lengths)] * len(facts)
        for (length, _), position in positions.of.items():
            shortest[position] = min(shortest[position], length)
        count = self.single.tokens.inner
        latest: list[int] = []
        following = max(self.lengths)
        for length, fact in zip(reversed(shortest), reversed(facts), strict=True):
            end = min(length - self._frame(fact).tokens - _SLACK, following)
            following = end - count(fact.sentence)
            latest.insert(0, following)
        return latest

    def _frame(self, fact: Fact) -> PromptFrame:
        return self.single.framer(fact.problem(), INTRODUCTION)

    def _alone(self, cell: Cell, fact: Fact) -> Prompt:
        return self.single.alone(cell, fact.problem(), INTRODUCTION)

    def _finish(self, cell: Cell, document: LaidDocument, fact: Fact, index: int | None) -> Prompt:
        """The document's beginning, some words to fill, and the question: `length` tokens in all.

        `index` is where the fact stands in the document, None when it does not: then it stands
        last in the prompt, or nowhere without a needle.
        """
        beside = [fact.sentence] if index is None and cell.control is not Control.NO_NEEDLE else []
        frame = self._frame(fact)
        room = cell.length - frame.tokens - sum(map(self.single.tokens.inner, beside))
        fillers = self._fillers(cell, document)
        best: _Laid | None = None
        # Among endless words those that fit are found in the end; a text may have none.
        attempts = _ATTEMPTS if self.single.sentences is not None else _MOST_ATTEMPTS
        for attempt in range(attempts):
            # Where no words come to what is left, more is left by cutting a sentence earlier.
            earlier = min(attempt // 4, _SENTENCES_CUT)
            end = max(document.end(room) - earlier, 0 if index is None else index + 1)
            if document.edges[end] > room:
                break
            filling = fillers(end, room - document.edges[end])
            laid = [*document.sentences[:end], *filling, *beside]
            text = frame.before + " ".join(laid) + frame.after
            ids = self.single.tokens.encode(text, special=frame.special)
            missing = cell.length - len(ids) - frame.budget
            if not leaks(document.secret, filling):
                if missing >= 0 and (best is None or missing < best.missing):
                    best = _Laid(missing, end, laid, text, ids)
                if missing == 0:
                    break
            room += missing
        if best is None or best.missing > LONGEST_FILLER:
            raise LengthError(
                f"a length of {cell.length} tokens cannot hold the facts of {len(self.depths)} "
                "depths in one document, or the haystack ends there; give longer or fewer lengths, "
                "fewer depths, more text, or --sharing prefix"
            )
        where = len(best.laid) - 1 if beside else index
        return self._prompt(cell, document, fact, frame, best, where)

    def _prompt(
        self,
        cell: Cell,
        document: LaidDocument,
        fact: Fact,
        frame: PromptFrame,
        best: _Laid,
        where: int | None,
    ) -> Prompt:
        start, depth = -1, 0.0
        if where is not None:
            first = self._start(document, frame, best, 0)
            start = self._start(document, frame, best, where)
            behind = sum(map(self.single.tokens.inner, best.laid[where + 1 :]))
            depth = (start - first) / (start - first + behind) if start > first else 0.0
        return Prompt(
            cell=cell,
            token_ids=tuple(best.ids),
            value_ids=frame.value_ids,
            needle_start=start,
            depth=depth,
            key=fact.key,
            value=fact.value,
            distractors=tuple(
                other.value
                for other, at in zip(document.facts, document.at, strict=True)
                if at < best.end and other != fact
            ),
            text=best.text,
            budget=frame.budget,
        )

    def _start(self, document: LaidDocument, frame: PromptFrame, best: _Laid, index: int) -> int:
        """The token with which a sentence begins; one of the document is looked for once."""
        if index >= best.end:
            return self.single.framer.begins(frame, best.laid, index, best.ids)
        if index not in document.starts:
            document.starts[index] = self.single.framer.begins(frame, best.laid, index, best.ids)
        return document.starts[index]

    def _fillers(self, cell: Cell, document: LaidDocument) -> Callable[[int, int], list[str]]:
        """fillers(end, tokens): sentences of that many tokens to stand behind the cut `end`.

        Of the user's own text they are what follows there.
        """
        count = self.single.tokens.inner
        if self.single.sentences is not None:
            facts = set(document.at)
            own = tuple(s for i, s in enumerate(document.sentences) if i not in facts)
            return lambda end, tokens: pieces(
                TextHaystack(own[document.own(end) :], None), tokens, count
            )
        kind = f"{cell.length}/{cell.depth}/{cell.trial}"
        source = GeneratedHaystack(Random(f"{self.single.seed}/filling/{kind}"))
        return lambda _, tokens: pieces(source, tokens, count)


@dataclass(frozen=True, slots=True)
class _Laid:
    """A try at a prompt: how many tokens it falls short, and where the document was cut."""

    missing: int
    end: int
    laid: list[str]
    text: str
    ids: list[int]


def check_documents(make: Make, lengths: Iterable[int], depths: Sequence[float]) -> None:
    """Raise LengthError unless every length can hold its facts, by the first document.

    What that one cannot hold, further ones are asked for: facts differ in their tokens. The fact of
    depth 1 is asked for by a control where that is no depth of the grid.
    """
    ends = [(depth, Control.NONE) for depth in depths]
    ends += [] if 1.0 in depths else [(1.0, Control.END)]
    for length in lengths:
        for depth, control in ends:
            lay_first(make, [Cell(length, depth, trial, control) for trial in range(_LOOKED_AT)])
