"""Which bytes each row of a table stands for: the vocabulary, keyed by bytes.

A key is what the token adds to a text: b" the" for the `Ġthe` of a byte-level vocabulary and the
`▁the` of sentencepiece, one byte for `<0x0A>`. WordPiece takes words apart that have lost their
spaces, so its keys are its pieces: b"##ing" goes on with a word, b"ing" begins one. Several rows
may have one key (the byte `<0x41>` and the piece `A`), and a row may have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from ropewalk.short import short
from ropewalk.tables.display import display


class Kind(StrEnum):
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
    kind: Kind
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

    def of_kind(self, kind: Kind) -> tuple[int, ...]:
        """The rows of one kind, ascending."""
        return tuple(r for r, t in enumerate(self.tokens) if t is not None and t.kind is kind)


def _form(token: Token) -> str:
    """A byte token shows its byte, whatever character it may be; others their text."""
    if token.kind is Kind.BYTE:
        return "".join(f"<0x{byte:02X}>" for byte in token.key)
    return display(token.key)


def from_pairs(pairs: Iterable[tuple[int, Token]], source: str, scheme: str) -> Vocabulary:
    """A vocabulary of (row, token); rows that no pair names have no token."""
    listed = dict(pairs)
    tokens: list[Token | None] = [None] * (max(listed, default=-1) + 1)
    for row, token in listed.items():
        tokens[row] = token
    return Vocabulary(tokens, source, scheme)
