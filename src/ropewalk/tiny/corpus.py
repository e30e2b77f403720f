"""What the embedded model reads: reports of a given length with facts in them, and questions.

The words are those of the proof's own generators, drawn with other seeds than a proof draws. Every
token is predicted, so that the model learns the language too; those of an answer weigh more,
because only they teach retrieval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Protocol

from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.needles import FACTS_FOLLOW, Fact, draw_facts, draw_needle
from ropewalk.proof.tasks import single
from ropewalk.short import short

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ANSWER_WEIGHT = 4.0
_HAYSTACKS, _SENTENCES = 150, 60
_MOST_QUESTIONS = 3


class TextSource(Protocol):
    """What is hidden in a document and asked for: a pass key, or a fact of some other kind."""

    @property
    def sentence(self) -> str:
        """The text that is hidden."""

    @property
    def question(self) -> str:
        """What is asked."""

    @property
    def opening(self) -> str:
        """The beginning of the answer."""

    @property
    def value(self) -> str:
        """The answer."""


@short
@dataclass(frozen=True, slots=True)
class Example:
    """A document's ids, and the weight of each as a target: 1, or ANSWER_WEIGHT in an answer."""

    ids: list[int]
    weights: list[float]


@short
@dataclass
class Corpus:
    """Documents without end for one tokenizer. Haystacks are tokenised once and used again.

    Raises ValueError from `document` for a length that holds no fact and its question.
    """

    tokenizer: Tokenizer
    random: Random
    _pool: list[list[list[int]]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        for _ in range(_HAYSTACKS):
            sentences = islice(GeneratedHaystack(self.random).sentences(), _SENTENCES)
            self._pool.append([self._ids(f" {each}") for each in sentences])

    def document(self, length: int, pass_keys: bool) -> Example:
        """A report of exactly `length` tokens, some of its facts asked for at the end.

        `pass_keys`: made-up words with numbers, as a proof's single needle; else facts of many
        kinds.
        """
        facts, introduction = self._facts(length, pass_keys)
        # A long document asks more, or hardly any of its tokens would be answers.
        most = max(_MOST_QUESTIONS, length // 100)
        asked = self.random.sample(facts, min(len(facts), most))
        head = self._ids(f"{introduction}\n\n")
        while True:
            tails = [self._tail(fact) for fact in asked]
            hidden = [self._ids(f" {fact.sentence}") for fact in facts]
            taken = len(head) + sum(len(ids) for ids in hidden)
            room = length - taken - sum(len(tail.ids) for tail in tails)
            if room >= 0:
                break
            facts, asked = _fewer(facts, asked, length)
        body = self._haystack(room)
        for ids in hidden:
            body.insert(self.random.randrange(len(body) + 1), ids)
        start = [*head, *(token for ids in body for token in ids)]
        return Example(
            [*start, *(token for tail in tails for token in tail.ids)],
            [1.0] * len(start) + [weight for tail in tails for weight in tail.weights],
        )

    def text(self, length: int, pass_keys: bool) -> str:
        """The text of a document of `length` tokens, for whoever trains on text."""
        return str(self.tokenizer.decode(self.document(length, pass_keys).ids))

    def _facts(self, length: int, pass_keys: bool) -> tuple[Sequence[TextSource], str]:
        random = self.random
        if pass_keys:
            needles: list[Fact] = []
            short = length <= 100 * _MOST_QUESTIONS
            for _ in range(random.choice((1, 1, 2, 3)) if short else length // 100):
                needles.append(draw_needle(random, needles))
            return needles, single().introduction
        most = max(1, length // 40)
        return list(islice(draw_facts(random), random.randrange(1, most + 1))), FACTS_FOLLOW

    def _tail(self, fact: TextSource) -> Example:
        question = self._ids(f"\n\nQuestion: {fact.question}\nAnswer: {fact.opening}")
        value = self._ids(f" {fact.value}")
        weights = [1.0] * len(question) + [ANSWER_WEIGHT] * len(value)
        return Example(question + value, weights)

    def _haystack(self, room: int) -> list[list[int]]:
        """Sentences of `room` tokens; the last is cut off where it would be longer."""
        sentences = self.random.choice(self._pool)
        at = self.random.randrange(len(sentences))
        body: list[list[int]] = []
        while room > 0:
            ids = sentences[at % len(sentences)][:room]
            at += 1
            body.append(ids)
            room -= len(ids)
        return body

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)


def _fewer(
    facts: Sequence[TextSource], asked: Sequence[TextSource], length: int
) -> tuple[list[TextSource], list[TextSource]]:
    """Without the last question, then without a fact that is not asked for."""
    if len(asked) > 1:
        return list(facts), list(asked[:-1])
    if len(facts) > 1:
        spare = next(fact for fact in facts if fact not in asked)
        return [fact for fact in facts if fact is not spare], list(asked)
    raise ValueError(f"{length} tokens cannot hold a fact and its question")
