"""Which bytes each row of a table stands for: the vocabulary, keyed by bytes.

A key is what the token adds to a text: b" the" for the `Ġthe` of a byte-level vocabulary and the
`▁the` of sentencepiece, one byte for `<0x0A>`. WordPiece takes words apart that have lost their
spaces, so its keys are its pieces: b"##ing" goes on with a word, b"ing" begins one. Several rows
may have one key (the byte `<0x41>` and the piece `A`), and a row may have none.

`display` shows a key as text that can be printed anywhere and turned back. Tokens of byte-level
vocabularies need not be valid UTF-8, and a replacement character would make different tokens look
alike. So a byte that is no part of a printable character is written `<0xE4>`; a space is `␣`, so
that it shows at either end; and whatever in a token's own text looks like one of these is written
in bytes as well. `shape_of` sorts tokens by their look.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from ropewalk.short import short


class TokenKind(StrEnum):
    """What a token is: text, a single byte, a control token, one that the tokenizer never uses."""

    TEXT = "text"
    BYTE = "byte"
    SPECIAL = "special"
    UNUSED = "unused"


@short
@dataclass(frozen=True, slots=True)
class Token:
    """A row's token: its key, what it is, and the piece as the tokenizer's file has it."""

    key: bytes
    kind: TokenKind
    piece: str


@short
@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a word that is one token: how it differs, its key, and its rows."""

    form: str
    key: bytes
    ids: tuple[int, ...]


@short
@dataclass(frozen=True)
class Vocabulary:
    """`tokens[row]` is the row's token, None for a row between others that has none.

    `source` is the file it came from, `scheme` how its pieces are written: "byte-level",
    "sentencepiece", "wordpiece" or "plain".
    """

    tokens: Sequence[Token | None]
    source: str
    scheme: str
    _ids: dict[bytes, tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_key: dict[bytes, list[int]] = {}
        for row, token in enumerate(self.tokens):
            if token is not None:
                by_key.setdefault(token.key, []).append(row)
        object.__setattr__(self, "_ids", {key: tuple(rows) for key, rows in by_key.items()})

    def __len__(self) -> int:
        """Ids up to the highest; rows without a token between them count."""
        return len(self.tokens)

    def token(self, row: int) -> Token | None:
        """The token of a row, None for a row without one, also behind the last token."""
        return self.tokens[row] if 0 <= row < len(self.tokens) else None

    def label(self, row: int) -> str:
        """The row's token in its display form, one to one; `<row 6: no token>` without one."""
        token = self.token(row)
        if token is None:
            return f"<row {row}: no token>"
        form = _form(token)
        # Only rows of one key can have one form; they, and the empty one, get the row's number,
        # whose space keeps it apart from any token's own text.
        sharing = (self.tokens[other] for other in self._ids[token.key] if other != row)
        shared = any(other is not None and _form(other) == form for other in sharing)
        return form if form and not shared else f"{form}<id {row}>"

    def ids(self, key: bytes) -> tuple[int, ...]:
        """The rows whose key this is, ascending; mostly one, or none."""
        return self._ids.get(key, ())

    def row_of(self, label: str) -> int | None:
        """The row that has this display form, None for none."""
        return self._rows.get(label)

    def spellings(self, word: str) -> tuple[Spelling, ...]:
        """Every way to write `word` that is one token, as given first.

        With and without a space before it, and the same with its first letter or all of it in
        the other case (casefold for lower case, so that ß and İ do not depend on a locale).
        """
        bare = word.removeprefix(" ")
        cased = [("", bare)]
        for form, other in (
            ("lower case", bare.casefold()),
            ("capitalised", bare[:1].upper() + bare[1:]),
            ("upper case", bare.upper()),
        ):
            if other not in (text for _, text in cased):
                cased.append((form, other))
        # As it was written comes first.
        fronts = (" ", "") if word.startswith(" ") else ("", " ")
        found = []
        for form, text in cased:
            for front in fronts:
                key = (front + text).encode("utf-8", errors="surrogatepass")
                words = [form, "space before" if front else ""]
                said = ", ".join(w for w in words if w) or "as written"
                if key and (ids := self.ids(key)):
                    found.append(Spelling(said, key, ids))
        return tuple(found)

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Every row with a token by its label; made when a label is first looked up."""
        return {self.label(r): r for r, token in enumerate(self.tokens) if token is not None}


def _form(token: Token) -> str:
    """A byte token shows its byte, whatever character it may be; others their text."""
    if token.kind is TokenKind.BYTE:
        return "".join(f"<0x{byte:02X}>" for byte in token.key)
    return display(token.key)


def from_pairs(pairs: Iterable[tuple[int, Token]], source: str, scheme: str) -> Vocabulary:
    """A vocabulary of (row, token); rows that no pair names have no token."""
    listed = dict(pairs)
    tokens: list[Token | None] = [None] * (max(listed, default=-1) + 1)
    for row, token in listed.items():
        tokens[row] = token
    return Vocabulary(tokens, source, scheme)


SPACE = "␣"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
"""Categories that do not show or that change how a line shows; spaces other than the usual one."""

_MARK = re.compile(r"<0x([0-9A-F]{2})>")


def display(key: bytes) -> str:
    """The form of `key`: `display(b" caf\\xc3\\xa9\\n")` is "␣café<0x0A>"."""
    if key.isascii() and (text := key.decode("ascii")).isprintable():
        if "<" not in text:
            return text.replace(" ", SPACE)
    else:
        # Bytes that are no UTF-8 come as surrogates, one each.
        text = key.decode("utf-8", errors="surrogateescape")
    parts = []
    for at, character in enumerate(text):
        if character == " ":
            parts.append(SPACE)
        elif _written_out(character, text, at):
            raw = character.encode("utf-8", errors="surrogateescape")
            parts.append("".join(f"<0x{byte:02X}>" for byte in raw))
        else:
            parts.append(character)
    return "".join(parts)


def _written_out(character: str, text: str, at: int) -> bool:
    if character == "<":
        # It would be read as a byte. (A row's number, "<id 5>", holds a space, and no form does.)
        return text.startswith("<0x", at)
    # A combining mark at the front would sit on whatever is printed before it.
    return (
        character in (SPACE, "\ufffd")
        or unicodedata.category(character) in _HIDDEN
        or (at == 0 and unicodedata.category(character).startswith("M"))
    )


def parse(shown: str) -> bytes:
    """The key of a form: `parse(display(key)) == key`."""
    parts = []
    end = 0
    for mark in _MARK.finditer(shown):
        parts += [_plain(shown[end : mark.start()]), bytes([int(mark[1], 16)])]
        end = mark.end()
    return b"".join([*parts, _plain(shown[end:])])


def _plain(text: str) -> bytes:
    return text.replace(SPACE, " ").encode("utf-8", errors="surrogateescape")


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


_KINDS = {
    TokenKind.BYTE: Shape.BYTE,
    TokenKind.SPECIAL: Shape.SPECIAL,
    TokenKind.UNUSED: Shape.UNUSED,
}


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
