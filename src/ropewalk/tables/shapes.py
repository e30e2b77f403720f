"""What the text of a token looks like, in few groups: words, numbers, signs, scripts."""

from __future__ import annotations

import unicodedata
from enum import StrEnum

from ropewalk.tables.vocabulary import Kind, Token, Vocabulary


class Shape(StrEnum):
    """The groups by which tokens of one look can be told from others on a map."""

    SPACED = "begins a word"
    WORD = "no space before"
    CONTINUED = "goes on with a word"
    NUMBER = "number"
    SIGN = "punctuation and signs"
    OTHER = "other scripts"
    BLANK = "blank or control"
    BROKEN = "part of a character"
    BYTE = "byte"
    SPECIAL = "special"
    UNUSED = "unused"
    NONE = "row without a token"


_KINDS = {Kind.BYTE: Shape.BYTE, Kind.SPECIAL: Shape.SPECIAL, Kind.UNUSED: Shape.UNUSED}


def shape_of(token: Token | None, words: Vocabulary | None = None) -> Shape:
    """The group of a token, None standing for a row without one.

    `words` is its vocabulary: in WordPiece a piece that begins a word has no mark, and one that
    goes on with it has.
    """
    if token is None:
        return Shape.NONE
    if token.kind in _KINDS:
        return _KINDS[token.kind]
    try:
        text = token.key.decode("utf-8")
    except UnicodeDecodeError:
        return Shape.BROKEN
    pieces = words is not None and words.scheme == "wordpiece"
    continued = pieces and text.startswith("##") and len(text) > 2
    bare = (text[2:] if continued else text).strip()
    if not bare or all(unicodedata.category(c).startswith("C") for c in bare):
        return Shape.BLANK
    letters = [c for c in bare if unicodedata.category(c)[0] in "LM"]
    if not letters:
        numbers = any(unicodedata.category(c).startswith("N") for c in bare)
        return Shape.NUMBER if numbers else Shape.SIGN
    if not all(_latin(c) for c in letters):
        return Shape.OTHER
    if continued:
        return Shape.CONTINUED
    return Shape.SPACED if pieces or text.startswith(" ") else Shape.WORD


def _latin(character: str) -> bool:
    if character.isascii():
        return True
    name = unicodedata.name(character, "")
    return name.startswith(("LATIN", "COMBINING", "FEMININE", "MASCULINE", "MODIFIER"))
