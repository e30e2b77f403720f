"""Where a word stands in sentences: its characters, and the tokens that hold them.

A word is found as it is written, case and all, and not inside a longer one. Its tokens are those
whose offsets, by the model's own tokenizer, share a character with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.short import short

ALL = 0
"""In place of an occurrence's number: every one."""


class Pieces(StrEnum):
    """What stands for a word of several tokens."""

    LAST = "last"
    FIRST = "first"
    MEAN = "mean"


@short
@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word in a sentence. Numbers count from 0, but `number`, the how-manieth of `of`, from 1.

    `ids` and `pieces` are the whole sentence's, as the tokenizer makes it; `first` to `last` are
    the word's tokens in it, `special` the places of tokens that the tokenizer added.
    """

    sentence: int
    text: str
    start: int
    end: int
    number: int
    of: int
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    first: int
    last: int
    special: frozenset[int]

    @property
    def own(self) -> range:
        """Places of the word's tokens."""
        return range(self.first, self.last + 1)

    def chosen(self, pieces: Pieces) -> range:
        """Places of the tokens that stand for the word."""
        if pieces is Pieces.MEAN:
            return self.own
        at = self.first if pieces is Pieces.FIRST else self.last
        return range(at, at + 1)


@short
@dataclass(frozen=True, slots=True)
class Place:
    """Where a word begins, in characters: the `number`-th of `of` times (from 1) in a sentence."""

    sentence: int
    start: int
    number: int
    of: int


def find_places(word: str, sentences: Sequence[str], number: int | None = None) -> list[Place]:
    """The word in each sentence: the first time it stands there, the `number`-th, or ALL.

    Raises UsageError for an empty word or sentence, a sentence without the word, and for fewer
    than two places in all.
    """
    if not word.strip():
        raise UsageError("the word is empty; give one that stands in every sentence")
    if number is not None and number < ALL:
        raise UsageError(f"occurrence {number} was asked for; the first is 1")
    found = [
        place for at, text in enumerate(sentences) for place in _in_sentence(word, at, text, number)
    ]
    if len(found) < 2:
        raise UsageError(
            f"{word!r} was found {len(found)} time in all; to compare, give two sentences or more, "
            "or one that holds it twice, with all of its occurrences"
        )
    return found


def _in_sentence(word: str, place: int, sentence: str, number: int | None) -> Iterator[Place]:
    if not sentence.strip():
        raise UsageError(f"sentence {place + 1} is empty; give one that holds {word!r}")
    starts = _starts(word, sentence)
    if not starts:
        raise UsageError(_not_there(word, place, sentence))
    if number is not None and number > len(starts):
        raise UsageError(
            f"occurrence {number} of {word!r} was asked for, and sentence {place + 1} "
            f"({sentence!r:.80}) holds {len(starts)}"
        )
    for count in range(1, len(starts) + 1) if number == ALL else [number or 1]:
        yield Place(place, starts[count - 1], count, len(starts))


def find_occurrences(
    tokenizer: Any, word: str, sentences: Sequence[str], number: int | None = None
) -> tuple[Occurrence, ...]:
    """The word's tokens at each of its places. Raises as `find_places`, UsageError for a word
    that the tokenizer drops, ModelFileError for a tokenizer without offsets.
    """
    places = find_places(word, sentences, number)
    return tuple(occurrence_at(tokenizer, word, sentences[p.sentence], p) for p in places)


def occurrence_at(tokenizer: Any, word: str, sentence: str, place: Place) -> Occurrence:
    """The word's tokens at one place of a sentence. Raises as `find_occurrences`."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelFileError(
            f"the tokenizer {type(tokenizer).__name__} does not tell which characters a token "
            "holds, so the word's tokens cannot be found; it needs a tokenizer.json"
        )
    made = tokenizer(sentence, return_offsets_mapping=True, return_special_tokens_mask=True)
    ids = tuple(int(i) for i in made["input_ids"])
    special = frozenset(i for i, added in enumerate(made["special_tokens_mask"]) if added)
    end = place.start + len(word)
    tokens = [
        i
        for i, (a, b) in enumerate(made["offset_mapping"])
        if a < end and b > place.start and i not in special
    ]
    if not tokens:
        raise UsageError(
            f"the tokenizer makes no token of {word!r} in sentence {place.sentence + 1}; give a "
            "word that it keeps"
        )
    return Occurrence(
        sentence=place.sentence,
        text=sentence,
        start=place.start,
        end=end,
        number=place.number,
        of=place.of,
        ids=ids,
        pieces=tuple(str(piece) for piece in tokenizer.convert_ids_to_tokens(list(ids))),
        first=tokens[0],
        last=tokens[-1],
        special=special,
    )


def _starts(word: str, sentence: str) -> list[int]:
    """Where `word` begins in the sentence, not inside a longer word."""
    found, at = [], sentence.find(word)
    while at >= 0:
        if _stands_alone(sentence, at, at + len(word)):
            found.append(at)
        at = sentence.find(word, at + 1)
    return found


def _stands_alone(sentence: str, start: int, end: int) -> bool:
    """Whether no letter or digit goes on across either end of the stretch."""
    before = start > 0 and sentence[start - 1].isalnum() and sentence[start].isalnum()
    behind = end < len(sentence) and sentence[end - 1].isalnum() and sentence[end].isalnum()
    return not before and not behind


def _not_there(word: str, place: int, sentence: str) -> str:
    said = f"{word!r} is not in sentence {place + 1} ({sentence!r:.80})"
    if word in sentence:
        return f"{said} but inside a longer word; give the word as a whole"
    at = sentence.casefold().find(word.casefold())
    if at >= 0:
        held = sentence[at : at + len(word)]
        return f"{said} but as {held!r}; case counts, for it makes another token"
    return f"{said}; every sentence must hold it"
