"""Prompts of an exact number of tokens, with a needle at a depth measured in tokens.

The count is the model's own tokenizer's over the finished prompt: special tokens, question and
the room for the answer included. Sentences are counted one by one to come close; the finished
text is then tokenized whole, and the last sentence is changed until the count is met. What stands
around the haystack, the first line before it and the question behind it, is the prompt's frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from random import Random

from ropewalk.errors import LengthError, ModelFileError
from ropewalk.proof.cells import Cell, Control, Prompt
from ropewalk.proof.classify import gives_away
from ropewalk.proof.haystack import (
    LONGEST_FILLER,
    SHORTEST_FILLER,
    GeneratedHaystack,
    Haystack,
    TextHaystack,
    fill,
    pieces,
    place,
)
from ropewalk.proof.needles import Problem, Task
from ropewalk.proof.tasks import TASKS, single
from ropewalk.proof.tokens import Tokens, shared_start
from ropewalk.short import short

_MARK = "<haystack>"


@short
@dataclass(frozen=True, slots=True)
class PromptFrame:
    """The texts before and behind the haystack, and what they cost.

    `value_ids` follow the prompt. `special`: whether the tokenizer's own special tokens are put
    before the text. `tokens` counts everything that is not haystack: frame, and `budget` tokens
    of answer.
    """

    before: str
    after: str
    value_ids: tuple[int, ...]
    budget: int
    special: bool
    tokens: int


@short
@dataclass(frozen=True, slots=True)
class Framer:
    """Makes frames for one model. `answer_tokens` are kept free for a chat answer."""

    tokens: Tokens
    chat: bool
    answer_tokens: int

    def __call__(self, problem: Problem, introduction: str) -> PromptFrame:
        """The frame of a problem.

        Raises ModelFileError when the chat template does not pass the question on as it is, and
        LengthError when the tokenizer merges over the seam before the value.
        """
        if self.chat:
            ask = (
                f"{introduction}\n\n{_MARK}\n\n{problem.question} Answer with the {problem.noun} "
                "only."
            )
            before, mark, after = self.tokens.chat(ask).partition(_MARK)
            if not mark or mark in after or problem.question not in after:
                raise ModelFileError(
                    "the model's chat template does not pass on what the user says as it was "
                    "said; leave out --chat"
                )
            # The template says itself which special tokens begin a turn.
            value, special = problem.value, False
        else:
            before = f"{introduction}\n\n"
            after = f"\n\nQuestion: {problem.question}\nAnswer: {problem.opening}"
            value, special = f" {problem.value}", True
        value_ids = self.tokens.continuation(before + after, value, special=special)
        budget = max(self.answer_tokens, len(value_ids)) if self.chat else len(value_ids)
        bare = len(self.tokens.encode(before + after, special=special))
        return PromptFrame(before, after, value_ids, budget, special, bare + budget)

    def begins(self, frame: PromptFrame, laid: list[str], index: int, ids: list[int]) -> int:
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


CHAT_ANSWER_TOKENS = 24
_ATTEMPTS, _MOST_ATTEMPTS = 12, 36
_NEEDLES_TRIED = 20
_SLACK = 4
"""Tokens added to the shortest prompt that was seen: keys differ in how many they take."""


@short
@dataclass(frozen=True, slots=True)
class PromptMaker:
    """Lays out the prompt of any cell; equal settings give equal prompts, on any machine.

    `seed` names the run's random text. `sentences` is the user's haystack, None for the grammar.
    `chat` asks through the model's own template and leaves `answer_tokens` for the answer;
    without it the prompt ends in the beginning of the answer. `distractors` needles with other
    keys are hidden at random depths beside a single one. `tasks` are tasks of the user's own by
    name, beside those of `ropewalk.proof.tasks`.
    """

    tokens: Tokens
    seed: int = 0
    chat: bool = False
    distractors: int = 0
    answer_tokens: int = CHAT_ANSWER_TOKENS
    sentences: tuple[str, ...] | None = None
    tasks: Mapping[str, Task] = field(default_factory=dict)

    def __call__(self, cell: Cell) -> Prompt:
        """The prompt of a cell.

        What does not come out is drawn again, _NEEDLES_TRIED times in all. Raises LengthError when
        the length cannot hold what is hidden and asked (with the minimum), or when the user's
        haystack is too short for it, or names all that is drawn.
        """
        introduction = self.task(cell.task).introduction
        drawn = islice(self.drawn(cell), _NEEDLES_TRIED)
        found = self._best(
            cell, (partial(self.lay_out, cell, each, introduction) for each in drawn)
        )
        if found is not None:
            return found
        least = self.minimum(cell.task)
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

    def drawn(self, cell: Cell) -> Iterator[Problem]:
        """Problems for a cell, without end: the first is asked, others where it does not fit."""
        task = self.task(cell.task)
        kind = f"{cell.control}/{cell.task}"
        random = Random(f"{self.seed}/{cell.length}/{cell.depth}/{cell.trial}/{kind}")
        while True:
            yield task.draw(random, cell.depth, cell.length)

    def task(self, name: str) -> Task:
        """The task of a name. Raises KeyError for one that is neither known nor in `tasks`."""
        if name == "single":
            return single(self.distractors)
        return self.tasks[name] if name in self.tasks else TASKS[name]

    def minimum(self, name: str = "single") -> int:
        """The fewest tokens that hold what a task hides and asks, over a few draws.

        A shorter prompt may happen to fit, when its key is short.
        """
        task = self.task(name)
        sizes = []
        for trial in range(8):
            problem = task.draw(Random(f"{self.seed}/minimum/{trial}"), 0.5, 0)
            frame = self.framer(problem, task.introduction)
            text = frame.before + " ".join(h.sentence for h in problem.hidden) + frame.after
            sizes.append(len(self.tokens.encode(text, special=frame.special)) + frame.budget)
        return max(sizes) + _SLACK

    @property
    def framer(self) -> Framer:
        """What makes the frames of these prompts."""
        return Framer(self.tokens, self.chat, self.answer_tokens)

    def _best(self, cell: Cell, tries: Iterable[Callable[[], Prompt | None]]) -> Prompt | None:
        """The first try that comes out, or, of endless text, that has its length to the token.

        Where none has, the longest; None where none comes out. Raises the first LengthError of
        tries that had no other end.
        """
        best: Prompt | None = None
        errors = []
        for attempt in tries:
            try:
                prompt = attempt()
            except LengthError as error:
                errors.append(error)
                continue
            if prompt is not None and (best is None or prompt.length > best.length):
                best = prompt
            if best is not None and (self.sentences is not None or best.length >= cell.length):
                return best
        if best is None and errors:
            raise errors[0]
        return best

    def lay_out(self, cell: Cell, problem: Problem, introduction: str) -> Prompt | None:
        """The prompt of a problem; None when it does not fit, or the haystack leaks it."""
        frame = self.framer(problem, introduction)
        if cell.control is Control.NEEDLE_ONLY:
            laid, index = place([], problem.hidden, cell.depth, self.tokens.inner)
            return self._finish(cell, frame, problem, laid, index)
        if cell.control is Control.NO_NEEDLE:
            problem = _without(problem)
        room = cell.length - frame.tokens
        room -= sum(self.tokens.inner(each.sentence) for each in problem.hidden)
        if room < 0:
            return None
        drawn = f"{self.seed}/{cell.task}/{cell.trial}"
        haystack = self.haystack(Random(drawn), problem.sentences)
        body = fill(haystack, room, self.tokens.inner, cell.length)
        if leaks(problem.secret, body):
            return None
        return self._adjust(cell, frame, problem, body, haystack)

    def haystack(self, random: Random, own: tuple[str, ...] | None = None) -> Haystack:
        """Text to hide something in: a problem's own, the user's, or from the grammar."""
        sentences = self.sentences if own is None else own
        return GeneratedHaystack(random) if sentences is None else TextHaystack(sentences, random)

    def _adjust(
        self, cell: Cell, frame: PromptFrame, problem: Problem, body: list[str], haystack: Haystack
    ) -> Prompt | None:
        """Place what is hidden, then trade the last sentence until the whole has the right count.

        `body` is changed. None when every attempt came out longer than the cell allows, or leaks
        the answer by what filled the last gap. Raises LengthError when the haystack ends before
        the count is met.
        """
        count = self.tokens.inner
        best: Prompt | None = None
        # Among endless sentences one that fits is found in the end; a text may have none.
        endless = self.sentences is None and problem.sentences is None
        for _ in range(_MOST_ATTEMPTS if endless else _ATTEMPTS):
            laid, index = place(body, problem.hidden, cell.depth, count)
            prompt = self._finish(cell, frame, problem, laid, index)
            missing = cell.length - prompt.length
            better = missing >= 0 and (best is None or prompt.length > best.length)
            if better and not leaks(problem.secret, body):
                best = prompt
            if best is prompt and missing == 0:
                break
            if 0 < missing < SHORTEST_FILLER and not body:
                break
            size = missing + (count(body.pop()) if body else 0)
            if size < SHORTEST_FILLER and body:
                size += count(body.pop())
            body.extend(pieces(haystack, size, count))
        if best is not None and cell.length - best.length > LONGEST_FILLER:
            raise LengthError(
                f"no further sentence of the haystack fills the last "
                f"{cell.length - best.length} of {cell.length} tokens: give more text, or shorter "
                "lengths"
            )
        return best

    def _finish(
        self, cell: Cell, frame: PromptFrame, problem: Problem, laid: list[str], index: int
    ) -> Prompt:
        text = frame.before + " ".join(laid) + frame.after
        ids = self.tokens.encode(text, special=frame.special)
        first = self.framer.begins(frame, laid, 0, ids)
        start = self.framer.begins(frame, laid, index, ids)
        behind = sum(map(self.tokens.inner, laid[index + 1 :]))
        hidden = cell.control is not Control.NO_NEEDLE
        return Prompt(
            cell=cell,
            token_ids=tuple(ids),
            value_ids=frame.value_ids,
            needle_start=start if hidden else -1,
            depth=(start - first) / (start - first + behind) if start > first else 0.0,
            key=problem.key,
            value=problem.value,
            distractors=problem.wrong,
            text=text,
            budget=frame.budget,
        )


def leaks(secret: tuple[str, ...], body: list[str]) -> bool:
    """Whether the haystack names a key or a value by itself."""
    return any(gives_away(text, secret) for text in body)


def _without(problem: Problem) -> Problem:
    """A problem with nothing hidden that tells its answer: the target, and what names a value."""
    left = tuple(
        each
        for each in problem.hidden
        if each.share is not None and not gives_away(each.sentence, problem.values)
    )
    return replace(problem, hidden=left)
