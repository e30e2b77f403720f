"""A language to train on: local grammar, and facts that are told once and come up again.

A stream goes on word by word. Words follow a fixed grammar in which the next one depends on the
two before it, so that order counts within a few tokens. In between come names, and every name is
followed by its value. Which value a name has, and which names come up often, is drawn anew for
each stream: a value can be known only from an earlier mention, which may lie two tokens back or
two hundred, since frequencies fall as 1/rank. What is to be learned of that is associative
recall (S. Arora et al., "Zoology", 2312.04927).

Everything is drawn from seeds with numpy, so that the same seed gives the same tokens anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.errors import LengthError

WORD, NAME, VALUE = 0, 1, 2
"""Kinds of token."""

_FOLLOWERS = (0.7, 0.15, 0.1, 0.05)
"""How often each of the four words comes that may follow."""
_CLASSES = 4
_SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo")


@dataclass(frozen=True, slots=True)
class Streams:
    """Tokens (rows, length) int64, the kind of each int8, and for a value how many tokens ago
    its name was mentioned before, int32: 0 where it never was, and for all other tokens.
    """

    tokens: NDArray[np.int64]
    kinds: NDArray[np.int8]
    distances: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Asked:
    """Prompts that end in a name: tokens (rows, length) int64, and the value's token of each."""

    tokens: NDArray[np.int64]
    answers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Language:
    """Sizes of the vocabulary. `stop` is how often a name follows a word; `seed` the grammar's."""

    words: int = 24
    names: int = 16
    values: int = 8
    stop: float = 0.4
    seed: int = 0

    @property
    def size(self) -> int:
        """Tokens in the vocabulary: words first, then names, then values."""
        return self.words + self.names + self.values

    @property
    def chance(self) -> float:
        """How often a guess among the values is right."""
        return 1.0 / self.values

    def spelled(self) -> tuple[str, ...]:
        """Every token as it is written: words small, names with a capital, values as numbers."""
        two = [first + second for second in _SYLLABLES for first in _SYLLABLES]
        names = [each.capitalize() + "n" for each in two[: self.names]]
        return (*two[: self.words], *names, *map(str, range(self.values)))

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

    def asked(self, seed: tuple[int, ...], rows: int, length: int, distance: int) -> Asked:
        """Prompts of `length` tokens that end in a name told once, `distance` tokens before.

        Where a name stands at the place it is told one token earlier, so that no pair is
        torn. Raises LengthError for a distance that does not fit.
        """
        if not 2 <= distance <= length - 2:
            raise LengthError(
                f"a fact {distance} tokens before the end of {length} is impossible: 2 to "
                f"{length - 2} can be"
            )
        random = np.random.default_rng([self.seed, *seed, 1])
        name = random.integers(0, self.names, rows)
        value = random.integers(0, self.values, rows) + self.words + self.names
        around = self.streams(seed, rows, length - 2, without=name)
        tokens = np.zeros((rows, length), np.int64)
        for row in range(rows):
            # A name stands at the end where the last kind says so: the row then begins earlier.
            late = int(around.kinds[row, -1] != NAME)
            text = around.tokens[row, late : late + length - 3]
            kinds = around.kinds[row, late : late + length - 3]
            at = length - 1 - distance
            at -= int(at > 0 and kinds[at - 1] == NAME)
            told = [name[row] + self.words, value[row]]
            tokens[row] = [*text[:at], *told, *text[at:], told[0]]
        return Asked(tokens, value)

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
        self.last = np.full((rows, language.names), -1)
        self.before, self.word = random.integers(0, language.words, (2, rows))
        self.name = np.zeros(rows, np.int64)
        self.told = np.zeros(rows, bool)

    def next(self, place: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Token, kind and distance of each stream's next token; `place` is its number."""
        sizes, rows = self.language, self.rows
        draw = self.random.random((3, len(rows)))
        value = self.told
        name = ~value & (draw[0] < sizes.stop)
        chosen = (draw[1][:, None] >= self.shares).sum(1).clip(max=sizes.names - 1)
        which = np.searchsorted(np.cumsum(_FOLLOWERS)[:-1], draw[2], side="right")
        word = self.followers[self.word, self.classes[self.before], which]
        ago = np.where(self.last[rows, self.name] < 0, 0, place - 1 - self.last[rows, self.name])
        distances = np.where(value, ago, 0)
        token = np.where(name, sizes.words + chosen, word)
        told = sizes.words + sizes.names + self.values[rows, self.name]
        token = np.where(value, told, token)
        self.last[rows[value], self.name[value]] = place - 1
        plain = ~value & ~name
        self.before = np.where(plain, self.word, self.before)
        self.word = np.where(plain, word, self.word)
        self.name = np.where(name, chosen, self.name)
        self.told = name
        return token, np.where(value, VALUE, np.where(name, NAME, WORD)), distances
