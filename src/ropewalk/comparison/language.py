"""A language to train on: local grammar, and facts that are told once and come up again.

A stream goes on word by word. Words follow a fixed grammar in which the next one depends on the
two before it, so that order counts within a few tokens. In between facts are told, one token each
that holds a name and its value, and names of which a fact was told come up, each followed by its
value. Which value a name has, and which names come up often, is drawn anew for each stream: a
value can be known only from an earlier mention, which may lie two tokens back or two hundred,
since frequencies fall as 1/rank. What is to be learned of that is associative recall (S. Arora et
al., "Zoology", 2312.04927).

A fact is one token on purpose. Told in two, a name and then its value, it would first have to be
put together by a layer that knows which token came before, and an encoding of position would be
measured by how soon it learns that. One token can be found by what it says, under any encoding
and under none; what is measured is then how far back it is found.

Everything is drawn from seeds with numpy, so that the same seed gives the same tokens anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.errors import LengthError
from ropewalk.short import short

WORD, NAME, VALUE, FACT = 0, 1, 2, 3
"""Kinds of token."""

_FOLLOWERS = (0.7, 0.15, 0.1, 0.05)
"""How often each of the four words comes that may follow."""
_CLASSES = 4
_SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo")


@short
@dataclass(frozen=True, slots=True)
class Streams:
    """Tokens (rows, length) int64, the kind of each int8, and for a value how many tokens before
    its name it was last told, int32: 0 for all other tokens.
    """

    tokens: NDArray[np.int64]
    kinds: NDArray[np.int8]
    distances: NDArray[np.int32]


@short
@dataclass(frozen=True, slots=True)
class RecallPrompts:
    """Prompts that end in a name: tokens (rows, length) int64, and the value's token of each."""

    tokens: NDArray[np.int64]
    answers: NDArray[np.int64]


@short
@dataclass(frozen=True, slots=True)
class Language:
    """Sizes of the vocabulary, and how often a name comes up.

    `stop`: how often one is mentioned after a word. `again`: how often the fact of it, told
    before, is then told again rather than asked for. `seed` is that of the grammar.
    """

    words: int = 24
    names: int = 16
    values: int = 8
    stop: float = 0.4
    again: float = 0.5
    seed: int = 0

    @property
    def size(self) -> int:
        """Tokens in the vocabulary: words first, then names, values, and facts name by name."""
        return self.words + self.names + self.values + self.names * self.values

    @property
    def chance(self) -> float:
        """How often a guess among the values is right."""
        return 1.0 / self.values

    def spelled(self) -> tuple[str, ...]:
        """Every token as it is written: a word `baba`, name `Deban`, value `3`, fact `Deban:3`."""
        two = [first + second for second in _SYLLABLES for first in _SYLLABLES]
        names = [each.capitalize() + "n" for each in two[: self.names]]
        values = [*map(str, range(self.values))]
        facts = [f"{each}:{value}" for each in names for value in values]
        return (*two[: self.words], *names, *values, *facts)

    def fact(self, name: Any, value: Any) -> Any:
        """The token that tells the value of a name, each by its number; integers or arrays."""
        return self.words + self.names + self.values + name * self.values + value

    def streams(
        self, seed: tuple[int, ...], rows: int, length: int, *, without: NDArray[Any] | None = None
    ) -> Streams:
        """`rows` streams from their beginning. `without` (rows,): a name that each never has."""
        random = np.random.default_rng([self.seed, *seed])
        state = _State(self, random, rows, without)
        tokens = np.zeros((rows, length), np.int64)
        kinds = np.zeros((rows, length), np.int8)
        distances = np.zeros((rows, length), np.int32)
        for place in range(length):
            tokens[:, place], kinds[:, place], distances[:, place] = state.next(place)
        return Streams(tokens, kinds, distances)

    def asked(self, seed: tuple[int, ...], rows: int, length: int, distance: int) -> RecallPrompts:
        """Prompts of `length` tokens that end in a name told once, `distance` tokens before.

        Where that would part a name from its value, it is told one token earlier. Raises
        LengthError for a distance that does not fit.
        """
        if not 1 <= distance <= length - 1:
            raise LengthError(
                f"a fact {distance} tokens before the end of {length} is impossible: 1 to "
                f"{length - 1} can be"
            )
        random = np.random.default_rng([self.seed, *seed, 1])
        name = random.integers(0, self.names, rows)
        value = random.integers(0, self.values, rows)
        around = self.streams(seed, rows, length - 1, without=name)
        tokens = np.zeros((rows, length), np.int64)
        for row in range(rows):
            # A name stands at the end where the last kind says so: the row then begins later.
            late = int(around.kinds[row, length - 3] == NAME)
            text = around.tokens[row, late : late + length - 2]
            kinds = around.kinds[row, late : late + length - 2]
            at = length - 1 - distance
            at -= int(at > 0 and kinds[at - 1] == NAME)
            told = self.fact(name[row], value[row])
            tokens[row] = [*text[:at], told, *text[at:], self.words + name[row]]
        return RecallPrompts(tokens, value + self.words + self.names)

    def grammar(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The class of each word, and the four words that may follow (word, class before it)."""
        random = np.random.default_rng([self.seed, 0])
        classes = random.integers(0, _CLASSES, self.words)
        return classes, random.integers(0, self.words, (self.words, _CLASSES, len(_FOLLOWERS)))


class _State:
    """Where each of many streams stands; they go on side by side."""

    def __init__(
        self, language: Language, random: np.random.Generator, rows: int, without: Any
    ) -> None:
        self.language, self.random, self.rows = language, random, np.arange(rows)
        self.classes, self.followers = language.grammar()
        self.values = random.integers(0, language.values, (rows, language.names))
        weights = 1.0 / np.arange(1, language.names + 1)
        often = random.permuted(np.tile(weights, (rows, 1)), axis=1)
        if without is not None:
            often[self.rows, without] = 0.0
        self.shares = often.cumsum(1) / often.sum(1, keepdims=True)
        # The place where each name's value was last told; -1 where it never was.
        self.last = np.full((rows, language.names), -1)
        self.before, self.word = random.integers(0, language.words, (2, rows))
        self.name = np.zeros(rows, np.int64)
        self.asked = np.zeros(rows, bool)

    def next(self, place: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Token, kind and distance of each stream's next token; `place` is its number."""
        sizes, rows = self.language, self.rows
        draw = self.random.random((4, len(rows)))
        value = self.asked
        mentioned = ~value & (draw[0] < sizes.stop)
        chosen = (draw[1][:, None] >= self.shares).sum(1).clip(max=sizes.names - 1)
        name = mentioned & (self.last[rows, chosen] >= 0) & (draw[3] >= sizes.again)
        fact = mentioned & ~name
        which = np.searchsorted(np.cumsum(_FOLLOWERS)[:-1], draw[2], side="right")
        word = self.followers[self.word, self.classes[self.before], which]
        distances = np.where(value, place - 1 - self.last[rows, self.name], 0)
        told = sizes.words + sizes.names + self.values[rows, self.name]
        cases = [value, name, fact]
        facts = sizes.fact(chosen, self.values[rows, chosen])
        token = np.select(cases, [told, sizes.words + chosen, facts], word)
        self.last[rows[value], self.name[value]] = place
        self.last[rows[fact], chosen[fact]] = place
        plain = ~value & ~mentioned
        self.before = np.where(plain, self.word, self.before)
        self.word = np.where(plain, word, self.word)
        self.name = np.where(name, chosen, self.name)
        self.asked = name
        return token, np.select(cases, [VALUE, NAME, FACT], WORD), distances
