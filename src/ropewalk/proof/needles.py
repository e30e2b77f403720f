"""What a task is: it draws problems, and says what guessing would score.

A problem names its hidden sentences and where they go, the question and the right values; how it
becomes a prompt of an exact length is the same for all (`ropewalk.proof.prompt`).

What is hidden and asked for: a random key, a random value, and the words around them.

The question repeats the key and nothing else of the needle, and the key is a made-up word, so
that only the needle can answer it. Digits of the value differ from their neighbours: a value
like 77777 would be right by stuttering.

Kinds of facts: the words around a key and a value, and how a value of the kind looks.

A document takes each kind once before any comes again: two facts of a kind are what a model mixes
up (`benchmarks/needles.py`).

A value is told by its form, or by the kind of word it is, to be of its kind. Neighbouring digits
differ, as in `ropewalk.proof.needles`: what could be said by stuttering would not have been read.

Drawing facts for one document: each unlike all the others in it.

What several tasks draw: made-up words and numbers that cannot be mixed up by accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from ropewalk.proof.classify import gives_away
from ropewalk.proof.kinds import KINDS, FactKind
from ropewalk.proof.words import SUBJECTS
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Hidden:
    """A sentence to hide at `share` of the haystack (0 to 1); None is the depth of the cell."""

    sentence: str
    share: float | None = None


def at_depth(depth: float, target: str, beside: Iterable[Hidden]) -> tuple[Hidden, ...]:
    """The target, at the cell's depth, among others that stand anywhere.

    Of those in its place it comes first in the first half of the text, and last in the second.
    """
    here = Hidden(target)
    return (*beside, here) if depth > 0.5 else (here, *beside)


@short
@dataclass(frozen=True, slots=True)
class Problem:
    """What is hidden and asked in one prompt.

    One of `hidden` has no share: its place is the cell's depth, and is what is recorded as it.
    Sentences of the same place stand in the given order. A base model goes on behind `opening`
    with `value`. `secret` must not occur in the haystack: keys and values. `wrong` are answers
    that show a confusion. `noun` names what a chat answer is to consist of. `sentences` are a
    haystack of the problem's own.
    """

    hidden: tuple[Hidden, ...]
    question: str
    opening: str
    values: tuple[str, ...]
    key: str
    wrong: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    noun: str = "pass key"
    sentences: tuple[str, ...] | None = None

    @property
    def value(self) -> str:
        """The right answer as one text: all values, in the order in which they are hidden."""
        return ", ".join(self.values)


class Task(Protocol):
    """Draws problems of one kind; the same random state draws the same problem."""

    @property
    def name(self) -> str:
        """As it is written after --task."""

    @property
    def introduction(self) -> str:
        """The first line of the prompt: what is to be looked out for."""

    @property
    def chance(self) -> float:
        """The share of HITs of one who knows the form of an answer and guesses."""

    def draw(self, random: Random, depth: float, length: int, /) -> Problem:
        """A problem for a prompt of about `length` tokens, to be found at `depth` (0 to 1)."""


def corrected(share: float, chance: float) -> float:
    """A share of hits with guessing taken out: 0 for what guessing scores, 1 for all right.

    (share - chance) / (1 - chance), below 0 for less than guessing. Raises ValueError when
    guessing is always right, because then nothing can be said.
    """
    if not 0 <= chance < 1:
        raise ValueError(f"a chance level of {chance:g} leaves nothing to measure: 0 to below 1")
    return (share - chance) / (1 - chance)


_SYLLABLES = """bar bel cor dan del dor fal fen gal gor han hel jor kal kel lan lor mar mel mir
mor nal nor pel ral ren sal sel sor tal tan tor val vel ver wen zan zel""".split()
_TAILS = ("a", "o", "ia", "in", "us", "et", "is", "ona", "eth", "ik")
VALUE_DIGITS = 5


@short
@dataclass(frozen=True, slots=True)
class Needle:
    """A fact to find: `value` is what `key` asks for; `sentence` is what is hidden.

    It is said twice in the same words, which a small model far within its length finds more
    surely: what is missed should be missed for the distance, not for the wording.
    """

    key: str
    value: str

    @property
    def sentence(self) -> str:
        """The text that goes into the haystack."""
        fact = f"The pass key of {self.key} is {self.value}."
        return f"{fact} Remember it. {fact}"

    @property
    def question(self) -> str:
        """What is asked at the end."""
        return f"What is the pass key of {self.key}?"

    @property
    def opening(self) -> str:
        """The beginning of the answer, which a base model continues with the value."""
        return f"The pass key of {self.key} is"


def draw_needle(random: Random, others: Sequence[Needle] = ()) -> Needle:
    """A needle that can be told from `others`: no key begins another, and no value is another's."""
    while True:
        key = "".join(random.sample(_SYLLABLES, 2)).capitalize() + random.choice(_TAILS)
        value = str(random.randrange(1, 10))
        while len(value) < VALUE_DIGITS:
            digit = str(random.randrange(10))
            value += digit if digit != value[-1] else ""
        if not any(
            value == other.value or key.startswith(other.key) or other.key.startswith(key)
            for other in others
        ):
            return Needle(key, value)


_DRAWS = 40
"""Values tried of a kind, before the next one takes its turn."""


@short
@dataclass(frozen=True, slots=True)
class Fact:
    """A fact to hide: `value` is what `key` asks for, in the words of `kind`."""

    kind: FactKind
    key: str
    value: str

    @property
    def sentence(self) -> str:
        """The text that goes into the haystack."""
        return f"{self.opening} {self.value}."

    @property
    def question(self) -> str:
        """What is asked at the end."""
        return self.kind.asking.format(key=self.key)

    @property
    def opening(self) -> str:
        """The beginning of the answer, which a base model continues with the value."""
        return self.kind.opening.format(key=self.key)

    def problem(self, wrong: tuple[str, ...] = ()) -> Problem:
        """What is asked for this fact; `wrong` are the values of facts beside it."""
        return Problem(
            hidden=(Hidden(self.sentence),),
            question=self.question,
            opening=self.opening,
            values=(self.value,),
            key=self.key,
            wrong=wrong,
            secret=(self.key, self.value),
            noun=self.kind.noun,
        )


def draw_facts(random: Random) -> Iterator[Fact]:
    """Facts without end, each unlike all before it.

    Kinds take turns: none comes again before all have come. Subjects differ in their first two
    letters as long as there are such, then in the word, and are made up once the known words are
    spent. No fact tells the key or the value of another, and no question its own answer.
    """
    subjects = _subjects(random)
    turn = random.randrange(len(KINDS))
    facts: list[Fact] = []
    while True:
        kind = KINDS[turn % len(KINDS)]
        turn += 1
        # Some subjects are words of a kind as well: Ginger, and ginger.
        key = next(
            subject
            for subject in subjects
            if not any(
                gives_away(fact.value, (subject,)) or gives_away(subject, (fact.value,))
                for fact in facts
            )
        )
        for _ in range(_DRAWS):
            fact = Fact(kind, key, kind.draw(random))
            if not _tells_itself(fact) and not any(
                _tells(fact, other) or _tells(other, fact) for other in facts
            ):
                facts.append(fact)
                yield fact
                break


def _tells_itself(fact: Fact) -> bool:
    """Whether the question already says the answer: Captain Ginger's ginger."""
    return gives_away(f"{fact.question} {fact.opening}", (fact.value,))


def _tells(one: Fact, other: Fact) -> bool:
    """Whether the words of one fact name the key or the value of another."""
    return any(gives_away(text, (other.key, other.value)) for text in (one.sentence, one.question))


def _subjects(random: Random) -> Iterator[str]:
    """Known words, those with a beginning of their own first; then made-up ones."""
    words = random.sample(SUBJECTS, len(SUBJECTS))
    beginnings: set[str] = set()
    later: list[str] = []
    for word in words:
        if word[:2] in beginnings:
            later.append(word)
        else:
            beginnings.add(word[:2])
            yield word
    yield from later
    needles = [draw_needle(random)]
    while True:
        yield needles[-1].key
        needles.append(draw_needle(random, needles))


def draw_needles(random: Random, count: int) -> list[Needle]:
    """`count` needles of which no key begins another and no value is another's."""
    needles: list[Needle] = []
    for _ in range(count):
        needles.append(draw_needle(random, needles))
    return needles


def draw_words(random: Random, count: int) -> list[str]:
    """`count` made-up capitalised words, none of which begins another."""
    return [needle.key for needle in draw_needles(random, count)]


def listed(words: list[str]) -> str:
    """Words as a sentence names them: A, B and C."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
