"""What is hidden and asked for: facts, and the problems that tasks make of them.

A `Fact` has a random key and a random value in the words of its kind. Its question repeats the key
and nothing else, and the key is a made-up word or a name, so that only the fact can answer it. A
`Problem` names the hidden sentences and where they go, the question and the right values; how it
becomes a prompt of an exact length is the same for all (`ropewalk.proof.prompt`). A `Task` draws
problems, and says what guessing would score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from ropewalk.proof.classify import gives_away
from ropewalk.proof.words import KINDS, PASS_KEY, SUBJECTS, FactKind
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


@short
@dataclass(frozen=True, slots=True)
class Task:
    """Draws problems of one kind; the same random state draws the same problem.

    `name` is as it is written after --task, `introduction` the first line of the prompt: what is to
    be looked out for. `chance` is the share of HITs of one who knows the form of an answer and
    guesses. `draw(random, depth, length)`: a problem for a prompt of about `length` tokens, to be
    found at `depth` (0 to 1).
    """

    name: str
    introduction: str
    chance: float
    draw: Callable[[Random, float, int], Problem]


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
        return self.kind.said.format(fact=f"{self.opening} {self.value}.")

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


def draw_needle(random: Random, others: Sequence[Fact] = ()) -> Fact:
    """A pass key that can be told from `others`: no key begins another, no value is another's."""
    while True:
        key = "".join(random.sample(_SYLLABLES, 2)).capitalize() + random.choice(_TAILS)
        value = PASS_KEY.draw(random)
        if not any(
            value == other.value or key.startswith(other.key) or other.key.startswith(key)
            for other in others
        ):
            return Fact(PASS_KEY, key, value)


FACTS_FOLLOW = (
    "A long report follows. Some lines in it state facts, one of which will be asked for at the "
    "end."
)
"""What a report with facts of many kinds begins with."""

_DRAWS = 40
"""Values tried of a kind, before the next one takes its turn."""


def draw_facts(random: Random) -> Iterator[Fact]:
    """Facts without end, each unlike all before it.

    Kinds take turns: none comes again before all have come. Subjects differ in their first two
    letters as long as there are such, then in the word, and are made up once the known words are
    spent. No fact tells the key or the value of another, and no question its own answer.
    """
    subjects = _subjects(random)
    turn = random.randrange(len(KINDS))
    facts: list[Fact] = []
    # What all facts so far say, and what none of their texts may name of another.
    texts: list[str] = []
    secrets: list[str] = []
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
            said, secret = (fact.sentence, fact.question), (fact.key, fact.value)
            if not (
                _tells_itself(fact)
                or any(gives_away(text, secrets) for text in said)
                or any(gives_away(text, secret) for text in texts)
            ):
                facts.append(fact)
                texts.extend(said)
                secrets.extend(secret)
                yield fact
                break


def _tells_itself(fact: Fact) -> bool:
    """Whether the question already says the answer: Captain Ginger's ginger."""
    return gives_away(f"{fact.question} {fact.opening}", (fact.value,))


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


def draw_needles(random: Random, count: int) -> list[Fact]:
    """`count` needles of which no key begins another and no value is another's."""
    needles: list[Fact] = []
    for _ in range(count):
        needles.append(draw_needle(random, needles))
    return needles


def draw_words(random: Random, count: int) -> list[str]:
    """`count` made-up capitalised words, none of which begins another."""
    return [needle.key for needle in draw_needles(random, count)]


def listed(words: list[str]) -> str:
    """Words as a sentence names them: A, B and C."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
