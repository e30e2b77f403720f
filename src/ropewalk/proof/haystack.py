"""Text to hide a needle in: sentences from a seeded grammar, or from the user's own files.

The grammar's sentences are plain English about people and places that do not exist, so no
model has seen them, and no sentence comes twice in one haystack. They hold no digits: a number
in the finished prompt is a needle's.

A haystack is an iterator of sentences, each without surrounding white space, plus a way to get
one of an exact number of tokens, so that a prompt can be filled to the token.

Haystack sentences of a wanted number of tokens, and hidden ones among them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Protocol

from ropewalk.errors import LengthError, UsageError
from ropewalk.proof.classify import gives_away
from ropewalk.proof.needles import Hidden
from ropewalk.proof.words import (
    ADJECTIVES,
    CODAS,
    ENDINGS,
    FEELINGS,
    ONSETS,
    PLACES,
    PLURALS,
    REASONS,
    ROLES,
    SHORT_TEMPLATES,
    TEMPLATES,
    THINGS,
    TIMES,
    VERBS,
    VOWELS,
    WEATHER,
)

Count = Callable[[str], int]
"""How many tokens a sentence takes in the middle of a text."""

LONGEST_SENTENCE = 400
"""Characters; a text without full stops, such as a table or code, is cut into such pieces."""

_PIECES_TRIED = 8
"""Pieces of one size that are looked at for one that gives nothing away."""


class Haystack(Protocol):
    """Sentences to lay around a needle. A new one is made for every cell."""

    def sentences(self) -> Iterator[str]:
        """Sentences in reading order; ends when the source has no more."""

    def filler(self, tokens: int, count: Count) -> str | None:
        """A further sentence, or some, of `tokens` tokens; None when there are none.

        Not to be called while a loop over `sentences` is going on.
        """


_SHORT = 12
"""Tokens below which the short templates are used."""


class GeneratedHaystack:
    """An endless haystack from the grammar; the same `random` state gives the same text."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._seen: set[str] = set()
        # A cast of its own for each haystack: names recur as they do in a real report.
        self._towns = [self._word().capitalize() + random.choice(ENDINGS) for _ in range(60)]
        self._names = [self._word().capitalize() for _ in range(160)]

    def sentences(self) -> Iterator[str]:
        """Sentences without end, none twice."""
        while True:
            yield self._fresh()

    def filler(self, tokens: int, count: Count) -> str | None:
        """A sentence of exactly `tokens` tokens among many fresh ones, or None."""
        if tokens < _SHORT:
            return self._search(SHORT_TEMPLATES, tokens, count)[0]
        found, fewest = self._search(TEMPLATES, tokens, count)
        if found is None and fewest > tokens + 4:
            # A tokenizer that cuts small, such as one of bytes, takes as much for the short ones.
            found, _ = self._search(SHORT_TEMPLATES, tokens, count)
        return found

    def _search(
        self, templates: tuple[str, ...], tokens: int, count: Count
    ) -> tuple[str | None, int]:
        """The first of 400 sentences with exactly `tokens` tokens; the fewest that one had."""
        fewest = 1 << 30
        for _ in range(400):
            sentence = self._sentence(templates)
            if sentence in self._seen:
                continue
            self._seen.add(sentence)
            size = count(sentence)
            if size == tokens:
                return sentence, size
            fewest = min(fewest, size)
        return None, fewest

    def _fresh(self) -> str:
        while True:
            sentence = self._sentence(TEMPLATES)
            if sentence not in self._seen:
                self._seen.add(sentence)
                return sentence

    def _sentence(self, templates: tuple[str, ...]) -> str:
        pick = self._random.choice
        time = pick(TIMES)
        text = pick(templates).format(
            name=pick(self._names),
            name2=pick(self._names),
            town=pick(self._towns),
            role=pick(ROLES),
            adj=pick(ADJECTIVES),
            thing=pick(THINGS),
            plural=pick(PLURALS),
            plural2=pick(PLURALS),
            verb=pick(VERBS),
            place=pick(PLACES),
            place2=pick(PLACES),
            weather=pick(WEATHER),
            feeling=pick(FEELINGS),
            reason=pick(REASONS),
            time=time,
            Time=time[0].upper() + time[1:],
        )
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)

    def _word(self) -> str:
        pick = self._random.choice
        first = pick(ONSETS) + pick(VOWELS)
        return first + pick(ONSETS) + pick(VOWELS) + pick(CODAS)


class TextHaystack:
    """The user's own text, from a random sentence on, each sentence at most once.

    Without a `random` from the first sentence on.
    """

    def __init__(self, sentences: tuple[str, ...], random: Random | None) -> None:
        start = random.randrange(len(sentences)) if random is not None else 0
        self._ring = sentences[start:] + sentences[:start]
        self._next = 0

    def sentences(self) -> Iterator[str]:
        """The text's sentences, round from the starting point, once.

        The sentence at which a loop breaks off counts as not read: it can still be cut to size.
        """
        while self._next < len(self._ring):
            yield self._ring[self._next]
            self._next += 1

    def filler(self, tokens: int, count: Count) -> str | None:
        """Further sentences of `tokens` tokens together, the last one cut at a word; or None."""
        begun = self._next
        taken: list[str] = []
        left = tokens
        for sentence in self.sentences():
            size = count(sentence)
            if size == left or size < left - 2:
                piece: str | None = sentence
            else:
                # One that would leave next to nothing is cut so that it leaves a few words.
                piece = _beginning(sentence, left if size > left else left - 6, count)
            if piece is not None:
                taken.append(piece)
                left -= count(piece)
            if left == 0:
                self._next += 1
                return " ".join(taken)
        # Nothing of that size here; the text is still there for another.
        self._next = begun
        return None


class Without:
    """Another haystack without the sentences that give one of `secret` away."""

    def __init__(self, haystack: Haystack, secret: tuple[str, ...]) -> None:
        self._haystack = haystack
        self._secret = secret

    def sentences(self) -> Iterator[str]:
        """The sentences that are left, in their order."""
        return (s for s in self._haystack.sentences() if not gives_away(s, self._secret))

    def filler(self, tokens: int, count: Count) -> str | None:
        """As the haystack has it; None where all of a few pieces give something away."""
        for _ in range(_PIECES_TRIED):
            piece = self._haystack.filler(tokens, count)
            if piece is None or not gives_away(piece, self._secret):
                return piece
        return None


def _beginning(sentence: str, tokens: int, count: Count) -> str | None:
    """The first words of a sentence, of exactly `tokens` tokens with a full stop; or None.

    A sentence without spaces, as Chinese has it, is cut at a character.
    """
    space = " " if " " in sentence else ""
    words = sentence.rstrip(".!?").split(" ") if space else list(sentence)
    for end in range(len(words), 0, -1):
        piece = space.join(words[:end]).rstrip(",;:") + "."
        size = count(piece)
        if size <= tokens:
            return piece if size == tokens else None
    return None


def read_sentences(path: Path) -> tuple[str, ...]:
    """The sentences of a UTF-8 text file, or of every .txt and .md file below a folder.

    Files are read in sorted order, so that the same folder gives the same haystack anywhere.
    What has no full stop for more than LONGEST_SENTENCE characters is cut there, at a space if
    there is one.

    Raises UsageError for a path that cannot be read as text, LengthError for one without any.
    """
    files = [path]
    if path.is_dir():
        found = (p for p in path.rglob("*") if p.suffix.lower() in {".txt", ".md"} and p.is_file())
        files = sorted(found, key=lambda file: file.relative_to(path).as_posix())
    sentences: list[str] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{file} is not UTF-8 text (byte {error.start}); convert it or leave it out"
            ) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"the haystack {file} cannot be read ({reason}); give a text file or a folder"
            ) from error
        flat = re.sub(r"\s+", " ", text).strip()
        for sentence in re.split(r"(?<=[.!?])\s+|(?<=[。！？])\s*", flat):
            sentences.extend(_cut(sentence))
    if not sentences:
        raise LengthError(
            f"the haystack {path} holds no text; give a .txt or .md file, or a folder with some"
        )
    return tuple(sentences)


def _cut(sentence: str) -> Iterator[str]:
    """A sentence in pieces of at most LONGEST_SENTENCE characters; none for an empty one."""
    while len(sentence) > LONGEST_SENTENCE:
        end = sentence.rfind(" ", 1, LONGEST_SENTENCE + 1)
        end = end if end > 0 else LONGEST_SENTENCE
        yield sentence[:end]
        sentence = sentence[end:].lstrip()
    if sentence:
        yield sentence


SHORTEST_FILLER, LONGEST_FILLER = 3, 30
"""Between these a haystack has, or can cut, a sentence of nearly every number of tokens."""


def fill(haystack: Haystack, room: int, count: Count, length: int) -> list[str]:
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
    while body and 0 < room - total < SHORTEST_FILLER:
        body.pop()
        total -= sizes.pop()
    body.extend(pieces(haystack, room - total, count))
    return body


def pieces(haystack: Haystack, tokens: int, count: Count) -> list[str]:
    """One or more sentences of `tokens` tokens together; fewer when none can be found."""
    found: list[str] = []
    while tokens >= SHORTEST_FILLER:
        first = tokens if tokens <= LONGEST_FILLER else min(tokens - SHORTEST_FILLER, 18)
        # A text may have no piece of some size, but two that come to the same.
        sizes = [first, *(n for n in range(first - SHORTEST_FILLER, SHORTEST_FILLER - 1, -1))]
        for size in sizes:
            piece = haystack.filler(size, count)
            if piece is not None:
                found.append(piece)
                tokens -= size
                break
        else:
            break
    return found


def place(
    body: Sequence[str], hidden: Sequence[Hidden], depth: float, count: Count
) -> tuple[list[str], int]:
    """The sentences with the hidden ones among them, and the index of the one at the depth.

    Each goes to the sentence boundary nearest to its share of the tokens, on either side; those
    of one boundary stand as they do in `hidden`.
    """
    edges = [0, *accumulate(count(sentence) for sentence in body)]
    spots: dict[int, list[Hidden]] = {}
    for each in hidden:
        share = depth if each.share is None else each.share
        spots.setdefault(nearest(edges, share * edges[-1]), []).append(each)
    laid: list[str] = []
    index = 0
    for i in range(len(edges)):
        for each in spots.get(i, ()):
            if each.share is None:
                index = len(laid)
            laid.append(each.sentence)
        laid.extend(body[i : i + 1])
    return laid, index


def nearest(edges: Sequence[int], wanted: float) -> int:
    """The index of the edge nearest to a place; of two as near, the first. `edges` ascend."""
    right = min(bisect_left(edges, wanted), len(edges) - 1)
    left = max(0, right - 1)
    return left if wanted - edges[left] <= edges[right] - wanted else right
