"""Which row of a table stands for a benchmark's word, by one rule for all words.

In a vocabulary that keeps spaces most words are two tokens, " cat" within a sentence and "cat" at
its beginning; the rule says which is taken. Case is kept unless `fold` is set; then words match by
`str.casefold`, which does not depend on a locale, the exact spelling first, then the lowest row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.vocabulary import TokenKind, Vocabulary

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable


class SpacingRule(StrEnum):
    """Which token a word is: with a space before it, bare, or the first of the two that is."""

    EITHER = "either"
    SPACED = "spaced"
    BARE = "bare"


@short
@dataclass(frozen=True, slots=True)
class FoundWord:
    """The rows of a word, one or its pieces', and how it was spelled: "space before", "bare" or
    "pieces".
    """

    rows: tuple[int, ...]
    form: str


@short
@dataclass
class Lookup:
    """Words to rows. `pieces` cuts a word into tokens, and their mean stands for it; None: a word
    of several tokens is out of the vocabulary. `used` counts the forms of all words asked so far.
    """

    table: EmbeddingTable
    spelling: SpacingRule = SpacingRule.EITHER
    fold: bool = False
    pieces: Callable[[str], list[int]] | None = None
    used: Counter[str] = field(default_factory=Counter, init=False)
    _known: dict[str, FoundWord | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.table.vocabulary is None:
            raise UsageError(
                f"{self.table.matrix.path} has no vocabulary beside it, so no word can be looked "
                "up; put its tokenizer.json or vocab.txt beside it"
            )
        self._vocabulary = self.table.vocabulary
        self._words, self._folded = _words(self._vocabulary, self.table.rows)

    def __call__(self, word: str) -> FoundWord | None:
        """The rows of a word; None where the vocabulary lacks it."""
        if word not in self._known:
            found = self._known[word] = self._find(word)
            if found is not None:
                self.used[found.form] += 1
        return self._known[word]

    def same_word(self, word: str) -> tuple[int, ...]:
        """Every row that spells this word: with and without a space, in any case if folding."""
        held = self._folded if self.fold else self._words
        return tuple(held.get(word.casefold() if self.fold else word, ()))

    def any_case(self, word: str) -> tuple[int, ...]:
        """Every row that spells this word, whatever its case and space."""
        return tuple(self._folded.get(word.casefold(), ()))

    def _find(self, word: str) -> FoundWord | None:
        for form, key in self._keys(word):
            rows = [row for row in self._vocabulary.ids(key) if row < self.table.rows]
            if rows:
                return FoundWord((rows[0],), form)
        if self.fold:
            for form, wanted in self._forms():
                for row in self._folded.get(word.casefold(), ()):
                    token = self._vocabulary.tokens[row]
                    if token is not None and token.key.startswith(b" ") is wanted:
                        return FoundWord((row,), form)
        if self.pieces is not None:
            # As the word stands in a sentence, but for vocabularies whose tokenizer adds the space.
            rows = self.pieces(f" {word}" if self.spelling is not SpacingRule.BARE else word)
            if rows and max(rows) < self.table.rows:
                return FoundWord(tuple(rows), "pieces")
        return None

    def _keys(self, word: str) -> list[tuple[str, bytes]]:
        raw = word.encode("utf-8", errors="surrogatepass")
        return [(form, b" " + raw if spaced else raw) for form, spaced in self._forms()]

    def _forms(self) -> list[tuple[str, bool]]:
        """The forms to try in order, each with whether it begins with a space."""
        spaced, bare = ("space before", True), ("bare", False)
        if self._vocabulary.scheme in ("wordpiece", "plain"):
            return [bare]
        return {
            SpacingRule.EITHER: [spaced, bare],
            SpacingRule.SPACED: [spaced],
            SpacingRule.BARE: [bare],
        }[self.spelling]


def _words(vocabulary: Vocabulary, rows: int) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Rows by the word that they spell without its space: as it is, and folded."""
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for row, token in enumerate(vocabulary.tokens[:rows]):
        if token is None or token.kind is not TokenKind.TEXT:
            continue
        try:
            word = token.key.decode().removeprefix(" ")
        except UnicodeDecodeError:
            continue
        exact.setdefault(word, []).append(row)
        folded.setdefault(word.casefold(), []).append(row)
    return exact, folded
