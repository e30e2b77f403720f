"""Drawing facts for one document: each unlike all the others in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from ropewalk.proof.naming import gives_away
from ropewalk.proof.needle import draw_needle
from ropewalk.proof.needles.kinds import KINDS, Kind
from ropewalk.proof.needles.words import SUBJECTS
from ropewalk.proof.tasks.base import Hidden, Problem
from ropewalk.short import short

_DRAWS = 40
"""Values tried of a kind, before the next one takes its turn."""


@short
@dataclass(frozen=True, slots=True)
class Fact:
    """A fact to hide: `value` is what `key` asks for, in the words of `kind`."""

    kind: Kind
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
