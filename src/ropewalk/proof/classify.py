"""From what a model printed to an outcome, and when a text names a word, a number or a phrase.

A haystack that must not give an answer away and an answer that must say it are held to the same
rule, so that the one cannot hold what the other would accept. What is looked for must stand as a
whole: "tram" is not named by "Leatramfield", nor 1234 by 51234, 3,000 or 12.5 by 3 and 12.

Both sides are compared by `normalise`. A word ends where no letter, digit or combining mark goes
on. Hyphens and apostrophes end one: "York's" names York. In scripts that are written without
spaces between words, or that hang particles on them, every place is the end of one.

A base prompt ends in the beginning of the answer, so what is printed first is the answer. A chat
answer is free text: the values named behind thinking (`ropewalk.proof.thinking`) decide. An answer
of several values is a set: right when it holds all of them and nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from ropewalk.proof.cells import Outcome
from ropewalk.proof.thinking import spoken

_NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen twenty""".split()
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-")
_UNSPACED = (
    ("\u0e00", "\u0fff"),  # Thai, Lao, Tibetan
    ("\u1000", "\u109f"),  # Myanmar
    ("\u1780", "\u17ff"),  # Khmer
    ("\u3005", "\u3007"),  # the marks of repetition, and zero, of Chinese characters
    ("\u3040", "\u309f"),  # Hiragana
    ("\u3400", "\u4dbf"),  # Chinese characters
    ("\u4e00", "\u9fff"),
    ("\uac00", "\ud7af"),  # Hangul: words are spaced, and carry their particles
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0003ffff"),
)
_KEPT = 1 << 15
"""Texts whose normal form is remembered: the prompts of a trial share their sentences."""


@lru_cache(maxsize=_KEPT)
def normalise(text: str) -> str:
    """Text as it is compared: NFKC, casefold, white space as single spaces.

    Signs of currency and what marks text (quotes, asterisks, underscores, backticks) are left
    out, dashes are hyphens, and the words zero to twenty are digits.
    """
    flat = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    flat = re.sub(r"[$\u20ac\u00a3\"\u201c\u201d\u2018`*_]", "", flat)
    flat = re.sub(r"[a-z]+", lambda word: _digits(word[0]), flat)
    return " ".join(flat.split())


def names(text: str, phrase: str) -> bool:
    """Whether a text names a phrase anywhere, as a whole; never one that normalises to nothing."""
    return _names(normalise(text), normalise(phrase))


def begins_with(text: str, phrase: str) -> bool:
    """Whether a text begins with a phrase, and any script's next letter would belong to it."""
    flat, wanted = normalise(text), normalise(phrase)
    end = len(wanted)
    if not wanted or not flat.startswith(wanted):
        return False
    return not (end < len(flat) and goes_on(flat[end])) and not _number_goes_on(flat, 0, end)


def gives_away(text: str, secret: Iterable[str]) -> bool:
    """Whether a text names one of `secret`, or its plural: what it must not do by itself."""
    flat = normalise(text)
    return any(
        _names(flat, form)
        for wanted in map(normalise, secret)
        if wanted[:-1] in flat
        for form in _forms(wanted)
    )


def goes_on(char: str) -> bool:
    """Whether a character behind a word would belong to it: a letter, a digit, a mark."""
    return char.isalnum() or unicodedata.category(char)[0] == "M"


def _names(flat: str, wanted: str) -> bool:
    return any(
        _free(flat, start - 1, start)
        and _free(flat, start + len(wanted), start + len(wanted) - 1)
        and not _number_goes_on(flat, start, start + len(wanted))
        for start in _places(flat, wanted)
    )


def _places(flat: str, wanted: str) -> Iterator[int]:
    start = flat.find(wanted) if wanted else -1
    while start >= 0:
        yield start
        start = flat.find(wanted, start + 1)


def _free(flat: str, outside: int, inside: int) -> bool:
    """Whether a word ends between two neighbouring places, one outside it and one inside."""
    if not 0 <= outside < len(flat) or not goes_on(flat[outside]):
        return True
    # A combining mark belongs to what it stands on, whatever the script.
    if unicodedata.category(flat[max(outside, inside)])[0] == "M":
        return False
    return _unspaced(flat[outside]) or _unspaced(flat[inside])


def _unspaced(char: str) -> bool:
    return char > "\u0dff" and any(first <= char <= last for first, last in _UNSPACED)


def _number_goes_on(flat: str, start: int, end: int) -> bool:
    """Whether a number at either end is a part of one: decimals, or digits in groups of three."""
    if flat[end - 1].isdecimal() and re.match(r"\.\d|,\d{3}(?!\d)", flat[end : end + 5]):
        return True
    if not flat[start].isdecimal() or not re.search(r"\d[.,]\Z", flat[max(0, start - 2) : start]):
        return False
    return flat[start - 1] == "." or re.match(r"\d{3}(?!\d)", flat[start:]) is not None


def _forms(wanted: str) -> tuple[str, ...]:
    """A word and its regular plurals."""
    if not wanted[-1:].isalpha():
        return (wanted,)
    if wanted.endswith("y"):
        return wanted, f"{wanted}s", f"{wanted[:-1]}ies"
    return wanted, f"{wanted}s", f"{wanted}es"


def _digits(word: str) -> str:
    return str(_NUMBERS.index(word)) if word in _NUMBERS else word


LIST = ", "
"""Between the values of an answer that has several."""


def named(text: str, values: Sequence[str]) -> set[str]:
    """Which of the values a text names, as whole words and numbers, after normalising."""
    return {value for value in values if names(text, value)}


def credit(printed: str, value: str, *, chat: bool) -> float:
    """The share of the values of an answer that were named, from 0 to 1."""
    values = value.split(LIST)
    said = spoken(printed, chat=chat).answer
    text = said if chat else _first_line(said)
    return len(named(text, values)) / len(values)


def classify(
    printed: str,
    value: str,
    distractors: Sequence[str],
    *,
    chat: bool,
    cut: bool = False,
    before: str = "",
) -> Outcome:
    """HIT, WRONG or MISS for a decoded answer; `value` may be several, with LIST between.

    THINKING where the answer was not come to; `cut` and `before` are those of `spoken`.

    A base answer is what is printed at the very start: the value, or for several a list that
    ends with the line or the sentence. A chat answer is right when, thinking taken out, it names
    the value and no other needle's value; it is WRONG when it names another needle's value and
    not the right one. Naming both is a MISS: a model that lists everything has not answered. So
    is a part of several values.
    """
    values = value.split(LIST)
    said = spoken(printed, cut=cut, before=before if chat else "", chat=chat)
    if said.open:
        return Outcome.THINKING
    printed = said.answer
    if chat:
        right, others = named(printed, values), named(printed, distractors)
    elif len(values) > 1:
        items = [part for part in re.split(r",|;|&|\band\b", _first_line(printed)) if part.strip()]
        right = {each for each in values if any(_is(item, each) for item in items)}
        others = {each for each in distractors if any(_is(item, each) for item in items)}
        if len(items) > len(right) + len(others):
            return Outcome.WRONG if others and not right else Outcome.MISS
    else:
        right = {each for each in values if begins_with(printed, each)}
        others = {each for each in distractors if begins_with(printed, each)}
    if len(right) == len(set(values)):
        return Outcome.MISS if others else Outcome.HIT
    return Outcome.WRONG if others and not right else Outcome.MISS


def _is(item: str, value: str) -> bool:
    return normalise(item).strip(" .!?:()") == normalise(value)


def _first_line(printed: str) -> str:
    """Up to the end of the first line or sentence."""
    return re.split(r"\n|(?<=\w)[.!?](?=\s|$)", printed.lstrip(), maxsplit=1)[0]
