"""The tokens that two vocabularies share, by the bytes that they add to a text, never by id.

A byte token (`<0x41>`) is shared with a byte token alone. WordPiece has lost its spaces: its `ing`
begins a word, which other vocabularies write with a space before it, and its `##ing` goes on with
one. So where one of the two is WordPiece, its pieces are looked for in that spelling first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.vocabulary import Kind, Token, Vocabulary

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable

Key = tuple[bytes, bool]
"""A token's bytes, and whether it is a byte token."""


@short
@dataclass(frozen=True, slots=True)
class Shared:
    """Rows of one table and the rows of the other that stand for the same token.

    `rows` and `others` in step, ascending by `rows`. `tokens` and `other_tokens` count the tokens
    with a row; `several` those left out because their bytes have several rows that no piece
    tells apart. `rule` says how they were paired.
    """

    rows: tuple[int, ...]
    others: tuple[int, ...]
    tokens: int
    other_tokens: int
    several: int
    rule: str

    def __len__(self) -> int:
        """How many tokens are shared."""
        return len(self.rows)


def shared_tokens(one: EmbeddingTable, other: EmbeddingTable) -> Shared:
    """The rows of two tables that stand for the same token; rows without a token for none.

    Tables that both have no vocabulary are paired by row number. Raises UsageError where only
    one has a vocabulary, and where nothing is shared.
    """
    mine, theirs = one.vocabulary, other.vocabulary
    if mine is None and theirs is None:
        rows = tuple(range(min(one.rows, other.rows)))
        rule = "by row number, for neither has a vocabulary"
        return Shared(rows, rows, one.rows, other.rows, 0, rule)
    if mine is None or theirs is None:
        bare = one if mine is None else other
        raise UsageError(
            f"{bare.matrix.path} has no vocabulary beside it, and the other table has one, so "
            "their tokens cannot be paired; put its tokenizer.json beside it"
        )
    found = _pair(mine, one.rows, theirs, other.rows)
    if not found.rows:
        raise UsageError(
            f"the two vocabularies ({mine.source}, {theirs.source}) share no token, so there is "
            "nothing to compare"
        )
    return found


def _pair(mine: Vocabulary, rows: int, theirs: Vocabulary, other_rows: int) -> Shared:
    here, there = dict(_tokens(mine, rows)), dict(_tokens(theirs, other_rows))
    one, other = _by_key(here, mine, theirs), _by_key(there, theirs, mine)
    pairs: list[tuple[int, int]] = []
    several = 0
    for key, a in one.items():
        b = other.get(key, [])
        if len(a) == len(b) == 1:
            pairs.append((a[0], b[0]))
        elif a and b:
            told = list(_by_piece(a, b, here, there))
            pairs += told
            several += max(len(a), len(b)) - len(told)
    pairs.sort()
    rule = "by the bytes of their tokens"
    if _loses_spaces(mine) is not _loses_spaces(theirs):
        rule += "; WordPiece's beginnings of words are those with a space before them"
    return Shared(
        tuple(a for a, _ in pairs), tuple(b for _, b in pairs), len(here), len(there), several, rule
    )


def _tokens(vocabulary: Vocabulary, rows: int) -> Iterator[tuple[int, Token]]:
    """Tokens that have a row."""
    for row, token in enumerate(vocabulary.tokens[:rows]):
        if token is not None:
            yield row, token


def _by_key(
    tokens: dict[int, Token], vocabulary: Vocabulary, other: Vocabulary
) -> dict[Key, list[int]]:
    spaced = _loses_spaces(vocabulary) and not _loses_spaces(other)
    found: dict[Key, list[int]] = {}
    for row, token in tokens.items():
        key = _spaced(token, vocabulary, other) if spaced else token.key
        if key:
            found.setdefault((key, token.kind is Kind.BYTE), []).append(row)
    return found


def _spaced(token: Token, own: Vocabulary, other: Vocabulary) -> bytes:
    """The key of a WordPiece token in a vocabulary that keeps its spaces."""
    if token.kind is not Kind.TEXT:
        return token.key
    if token.key.startswith(b"##") and len(token.key) > 2:
        return token.key[2:]
    # Punctuation stands without a space in most texts, and some vocabularies have it so alone.
    alone = not other.ids(b" " + token.key) and not own.ids(b"##" + token.key)
    return token.key if alone else b" " + token.key


def _by_piece(
    a: list[int], b: list[int], here: dict[int, Token], there: dict[int, Token]
) -> Iterator[tuple[int, int]]:
    """Rows of one key, told apart by the piece as the file writes it."""
    pieces = [here[row].piece for row in a]
    others = [there[row].piece for row in b]
    for row, piece in zip(a, pieces, strict=True):
        if pieces.count(piece) == others.count(piece) == 1:
            yield row, b[others.index(piece)]


def _loses_spaces(vocabulary: Vocabulary) -> bool:
    return vocabulary.scheme == "wordpiece"
