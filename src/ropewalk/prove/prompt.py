"""Prompts of an exact number of tokens, with a needle at a depth measured in tokens.

The count is the model's own tokenizer's over the finished prompt: special tokens, question and
the room for the answer included. Sentences are counted one by one to come close; the finished
text is then tokenized whole, and the last sentence is changed until the count is met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from ropewalk.errors import LengthError, ModelFileError
from ropewalk.prove.cells import Cell, Control, Prompt
from ropewalk.prove.haystack import GeneratedHaystack, Haystack, TextHaystack
from ropewalk.prove.needle import Needle, draw_needle
from ropewalk.prove.tokens import Tokens, shared_start

INTRODUCTION = (
    "A long report follows. One line in it gives a pass key, which will be asked for at the end."
)
CHAT_ANSWER_TOKENS = 24
_SHORTEST_FILLER, _LONGEST_FILLER = 3, 30
"""Between these a haystack has, or can cut, a sentence of nearly every number of tokens."""
_ATTEMPTS = 12
_NEEDLES_TRIED = 20
_SLACK = 4
"""Tokens added to the shortest prompt that was seen: keys differ in how many they take."""


@dataclass(frozen=True, slots=True)
class PromptMaker:
    """Lays out the prompt of any cell; equal settings give equal prompts, on any machine.

    `seed` names the run's random text. `sentences` is the user's haystack, None for the grammar.
    `chat` asks through the model's own template and leaves `answer_tokens` for the answer;
    without it the prompt ends in the beginning of the answer. `distractors` needles with other
    keys are hidden at random depths.
    """

    tokens: Tokens
    seed: int = 0
    chat: bool = False
    distractors: int = 0
    answer_tokens: int = CHAT_ANSWER_TOKENS
    sentences: tuple[str, ...] | None = None

    def __call__(self, cell: Cell) -> Prompt:
        """The prompt of a cell.

        Raises LengthError when the length cannot hold needle and question (with the minimum),
        or when the user's haystack is too short for it.
        """
        kind = f"{cell.control}/{cell.task}"
        random = Random(f"{self.seed}/{cell.length}/{cell.depth}/{cell.trial}/{kind}")
        for _ in range(_NEEDLES_TRIED):
            prompt = self._lay_out(cell, self._draw(random), random)
            if prompt is not None:
                return prompt
        least = self.minimum()
        if cell.length < least:
            raise LengthError(
                f"a length of {cell.length} tokens cannot hold needle, question and answer: with "
                f"this model's tokenizer the shortest is {least} tokens"
            )
        raise LengthError(
            f"{_NEEDLES_TRIED} needles in a row do not fit {cell.length} tokens, or occur in the "
            "haystack by themselves; give a longer length, or a haystack with fewer numbers and "
            "names"
        )

    def minimum(self) -> int:
        """The fewest tokens that hold needles, question and answer, over a few draws of them.

        A shorter prompt may happen to fit, when its key is short.
        """
        sizes = []
        for trial in range(8):
            needles = self._draw(Random(f"{self.seed}/minimum/{trial}"))
            frame = self._frame(needles)
            text = frame.before + " ".join(n.sentence for n in needles) + frame.after
            sizes.append(len(self.tokens.encode(text, special=frame.special)) + frame.budget)
        return max(sizes) + _SLACK

    def _draw(self, random: Random) -> tuple[Needle, ...]:
        needles: list[Needle] = []
        for _ in range(1 + self.distractors):
            needles.append(draw_needle(random, needles))
        return tuple(needles)

    def _frame(self, needles: tuple[Needle, ...]) -> _Frame:
        target = needles[0]
        if self.chat:
            ask = (
                f"{INTRODUCTION}\n\n<haystack>\n\n{target.question} Answer with the pass key only."
            )
            before, mark, after = self.tokens.chat(ask).partition("<haystack>")
            if not mark or mark in after or target.question not in after:
                raise ModelFileError(
                    "the model's chat template does not pass on what the user says as it was "
                    "said; leave out --chat"
                )
            # The template says itself which special tokens begin a turn.
            value, special = target.value, False
        else:
            before = f"{INTRODUCTION}\n\n"
            after = f"\n\nQuestion: {target.question}\nAnswer: {target.opening}"
            value, special = f" {target.value}", True
        hidden = sum(self.tokens.inner(n.sentence) for n in needles)
        value_ids = self.tokens.continuation(before + after, value, special=special)
        budget = max(self.answer_tokens, len(value_ids)) if self.chat else len(value_ids)
        bare = len(self.tokens.encode(before + after, special=special))
        return _Frame(before, after, value_ids, budget, special, bare + hidden + budget)

    def _lay_out(self, cell: Cell, needles: tuple[Needle, ...], random: Random) -> Prompt | None:
        frame = self._frame(needles)
        if cell.control is Control.NEEDLE_ONLY:
            return self._finish(cell, frame, needles, [needles[0].sentence], 0)
        room = cell.length - frame.fixed
        if cell.control is Control.NO_NEEDLE:
            room += self.tokens.inner(needles[0].sentence)
        if room < 0:
            return None
        haystack = self._haystack(Random(f"{self.seed}/{cell.task}/{cell.trial}"))
        body = _fill(haystack, room, self.tokens.inner, cell.length)
        if _betrayed(needles, body):
            return None
        prompt = self._adjust(cell, frame, needles, body, haystack, random)
        # The sentences that filled the last gap came after the first look.
        return None if _betrayed(needles, body) else prompt

    def _haystack(self, random: Random) -> Haystack:
        if self.sentences is None:
            return GeneratedHaystack(random)
        return TextHaystack(self.sentences, random)

    def _adjust(
        self,
        cell: Cell,
        frame: _Frame,
        needles: tuple[Needle, ...],
        body: list[str],
        haystack: Haystack,
        random: Random,
    ) -> Prompt | None:
        """Place the needles, then trade the last sentence until the whole has the right count.

        `body` is changed. None when every attempt came out longer than the cell allows. Raises
        LengthError when the haystack ends before the count is met.
        """
        places = [random.random() for _ in needles[1:]]
        count = self.tokens.inner
        best: Prompt | None = None
        for _ in range(_ATTEMPTS):
            laid, index = _place(body, needles, cell.depth, places, count)
            if cell.control is Control.NO_NEEDLE:
                del laid[index]
            prompt = self._finish(cell, frame, needles, laid, index)
            missing = cell.length - prompt.length
            if missing >= 0 and (best is None or prompt.length > best.length):
                best = prompt
            if missing == 0 or (missing > 0 and not body and missing < _SHORTEST_FILLER):
                break
            size = missing + (count(body.pop()) if body else 0)
            if size < _SHORTEST_FILLER and body:
                size += count(body.pop())
            body.extend(_pieces(haystack, size, count))
        if best is not None and cell.length - best.length > _LONGEST_FILLER:
            raise LengthError(
                f"no further sentence of the haystack fills the last "
                f"{cell.length - best.length} of {cell.length} tokens: give more text, or shorter "
                "lengths"
            )
        return best

    def _finish(
        self,
        cell: Cell,
        frame: _Frame,
        needles: tuple[Needle, ...],
        laid: list[str],
        index: int,
    ) -> Prompt:
        text = frame.before + " ".join(laid) + frame.after
        ids = self.tokens.encode(text, special=frame.special)
        first = self._begins(frame, laid, 0, ids)
        start = self._begins(frame, laid, index, ids)
        behind = sum(map(self.tokens.inner, laid[index + 1 :]))
        hidden = cell.control is not Control.NO_NEEDLE
        return Prompt(
            cell=cell,
            token_ids=tuple(ids),
            value_ids=frame.value_ids,
            needle_start=start if hidden else -1,
            depth=(start - first) / (start - first + behind) if start > first else 0.0,
            key=needles[0].key,
            value=needles[0].value,
            distractors=tuple(n.value for n in needles[1:]),
            text=text,
            budget=frame.budget,
        )

    def _begins(self, frame: _Frame, laid: list[str], index: int, ids: list[int]) -> int:
        """The place in `ids`, the whole prompt, of the first token of sentence `index`.

        A tokenizer may join the white space before a sentence with it, or with what stands
        before, depending on what follows. So another text is put in the sentence's place: up to
        there both have the same ids.
        """
        if index >= len(laid):
            return len(ids)
        head = frame.before + "".join(f"{sentence} " for sentence in laid[:index])
        lead = laid[index][0]
        # Of the same kind as what stands there: many tokenizers treat digits in their own way.
        same_kind = "01" if lead.isdigit() else "ZA"
        other = same_kind[1] if lead == same_kind[0] else same_kind[0]
        return shared_start(ids, self.tokens.encode(head + other, special=frame.special))


def _betrayed(needles: tuple[Needle, ...], body: list[str]) -> bool:
    """Whether the haystack names a key or a value by itself."""
    return any(needle.key in text or needle.value in text for needle in needles for text in body)


@dataclass(frozen=True, slots=True)
class _Frame:
    """What stands around the haystack. `fixed`: tokens of everything that is not haystack."""

    before: str
    after: str
    value_ids: tuple[int, ...]
    budget: int
    special: bool
    fixed: int


def _fill(haystack: Haystack, room: int, count: Callable[[str], int], length: int) -> list[str]:
    """Sentences of `room` tokens in all, as near as single counts can tell."""
    body: list[str] = []
    sizes: list[int] = []
    total = 0
    for sentence in haystack.sentences():
        size = count(sentence)
        if total + size > room:
            break
        body.append(sentence)
        sizes.append(size)
        total += size
    else:
        if total < room:
            raise LengthError(
                f"the haystack holds {total} tokens of sentences; a length of {length} needs "
                f"{room}: give more text, or shorter lengths"
            )
    while body and 0 < room - total < _SHORTEST_FILLER:
        body.pop()
        total -= sizes.pop()
    body.extend(_pieces(haystack, room - total, count))
    return body


def _pieces(haystack: Haystack, tokens: int, count: Callable[[str], int]) -> list[str]:
    """One or more sentences of `tokens` tokens together; fewer when none can be found."""
    pieces: list[str] = []
    while tokens >= _SHORTEST_FILLER:
        first = tokens if tokens <= _LONGEST_FILLER else min(tokens - _SHORTEST_FILLER, 18)
        # A text may have no piece of some size, but two that come to the same.
        sizes = [first, *(n for n in range(first - _SHORTEST_FILLER, _SHORTEST_FILLER - 1, -1))]
        for size in sizes:
            piece = haystack.filler(size, count)
            if piece is not None:
                pieces.append(piece)
                tokens -= size
                break
        else:
            break
    return pieces


def _place(
    body: list[str],
    needles: tuple[Needle, ...],
    depth: float,
    distractor_depths: list[float],
    count: Callable[[str], int],
) -> tuple[list[str], int]:
    """The sentences with the needles among them, and the index of the one that is asked for.

    A needle goes to the sentence boundary nearest to its depth in tokens, on either side.
    """
    edges = [0, *accumulate(count(sentence) for sentence in body)]

    def boundary(share: float) -> int:
        wanted = share * edges[-1]
        return min(range(len(edges)), key=lambda i: abs(edges[i] - wanted))

    spots = sorted(
        (
            (boundary(share), needle)
            for share, needle in zip(distractor_depths, needles[1:], strict=True)
        ),
        key=lambda spot: spot[0],
    )
    target = boundary(depth)
    laid: list[str] = []
    index = 0
    for i in range(len(body) + 1):
        here = [needle.sentence for spot, needle in spots if spot == i]
        if i == target:
            # First at depth 0 and last at depth 1, also where a distractor shares the boundary.
            index = len(laid) + (len(here) if depth > 0.5 else 0)
            here.insert(len(here) if depth > 0.5 else 0, needles[0].sentence)
        laid.extend(here)
        laid.extend(body[i : i + 1])
    return laid, index
