"""Rows that were never a token of any text: known as unused, or never made by the tokenizer.

Known without a registry of models, from four sources: rows that no token belongs to, tokens whose
name says that they are unused or reserved, bytes that no UTF-8 text holds, and rows that the caller
names. Tokens that no text becomes are never trained (Land & Bartolo, arXiv 2405.05417, section 3.1,
call them unreachable). A token's text is what the vocabulary says it adds; it is encoded alone and
after a few characters, for many tokens only ever follow others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.errors import ConfigError, MissingPartError
from ropewalk.short import short
from ropewalk.tables.health.scan import RowStretch, Scan
from ropewalk.tables.vocabulary import Token, TokenKind

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from ropewalk.tables.vocabulary import Vocabulary

IMPOSSIBLE_BYTES = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})
"""Bytes that no UTF-8 text holds (RFC 3629, section 3)."""

_NAMED = re.compile(r"[\[<].*(?<![a-z])(?:unused|reserved).*[\]>]", re.IGNORECASE | re.DOTALL)
_SENTINEL = re.compile(r"<extra_id_\d+>")
"""T5's own, which its pre-training uses in every example."""

NO_TOKEN = "rows without a token"  # noqa: S105
NAMED = "named as unused or reserved"
BYTES = "bytes that no UTF-8 text holds"
GIVEN = "named by --unused"


@short
@dataclass(frozen=True, slots=True)
class UnusedSource:
    """One reason to know rows as unused, and the rows."""

    reason: str
    rows: RowStretch


@short
@dataclass(frozen=True)
class KnownUnused:
    """All known rows as a mask (rows,) bool, and where they come from, each row once.

    Rows with NaN or infinity are left out.
    """

    mask: Tensor
    sources: tuple[UnusedSource, ...]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.mask.sum())


def known_unused(found: Scan, given: Iterable[int] = (), shown: int = 6) -> KnownUnused:
    """Ask all sources; `given` are rows that the caller knows. Raises RowError for one too high."""
    import torch

    from ropewalk.tables.stored import check_rows

    rows = found.table.rows
    listed = torch.tensor(check_rows(given, rows, "the table"), dtype=torch.int64)
    masks = {
        GIVEN: torch.zeros(rows, dtype=torch.bool).index_fill_(0, listed, True),
        NO_TOKEN: ~found.tokened,
        NAMED: _of_tokens(found, says_unused),
        BYTES: _of_tokens(found, is_impossible_byte),
    }
    taken = ~found.finite | found.oversized
    sources = []
    for reason, mask in masks.items():
        new = mask & ~taken
        taken = taken | new
        if bool(new.any()):
            sources.append(UnusedSource(reason, found.stretch(new, shown)))
    return KnownUnused(taken & found.finite & ~found.oversized, tuple(sources))


def says_unused(token: Token) -> bool:
    """Whether the tokenizer marks a token as unused, or its name in brackets says so."""
    if _SENTINEL.fullmatch(token.piece):
        return False
    return token.kind is TokenKind.UNUSED or _NAMED.fullmatch(token.piece) is not None


def is_impossible_byte(token: Token) -> bool:
    """Whether a token is one byte that no UTF-8 text holds."""
    return len(token.key) == 1 and token.key[0] in IMPOSSIBLE_BYTES


def _of_tokens(found: Scan, holds: Callable[[Token], bool]) -> Tensor:
    """(rows,) bool: rows whose token is one of those."""
    import torch

    vocabulary, mask = found.table.vocabulary, torch.zeros(found.table.rows, dtype=torch.bool)
    if vocabulary is not None:
        tokens = vocabulary.tokens[: found.table.rows]
        rows = [row for row, token in enumerate(tokens) if token is not None and holds(token)]
        mask[rows] = True
    return mask


BEFORE = ("", "a", "q", "Z", "1", "«", "\n", " ", "!", "é", "中")
"""What a token's text is put behind, one after the other."""


@short
@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Of the tokens that are neither special nor known as unused.

    `source` is the tokenizer's file, None where there is none; `why_not` says then why nothing
    was encoded. `checked` tokens were encoded again; `undecodable` ones are not UTF-8 by
    themselves, so that no text is theirs alone; `unreachable` ones came back as other tokens every
    time.
    """

    source: str | None
    why_not: str
    checked: int
    undecodable: RowStretch
    unreachable: RowStretch


def round_trip(found: Scan, skip: Tensor, top: int) -> RoundTrip | None:
    """Encode every token of the table but those of `skip` (rows,) bool; None without a vocabulary.

    The tokenizer is the tokenizer.json that the vocabulary was read from. Raises ConfigError for
    one that cannot be brought up, MissingPartError without tokenizers.
    """
    import torch

    vocabulary = found.table.vocabulary
    if vocabulary is None:
        return None
    texts, broken = _texts(vocabulary, found.table.rows, skip)
    bare = torch.zeros(found.table.rows, dtype=torch.bool)
    broken_mask = bare.clone()
    broken_mask[broken] = True
    path = Path(vocabulary.source)
    undecodable = found.stretch(broken_mask, top)
    if path.name != "tokenizer.json":
        why = f"{path.name} holds no tokenizer that can be asked; tokenizer.json does"
        return RoundTrip(None, why, 0, undecodable, found.stretch(bare, top))
    missed = bare.clone()
    missed[_unreachable(_tokenizer(path), texts)] = True
    return RoundTrip(str(path), "", len(texts), undecodable, found.stretch(missed, top))


def _texts(vocabulary: Vocabulary, rows: int, skip: Tensor) -> tuple[dict[int, str], list[int]]:
    """Each token's text by its row, and the rows of tokens that are no text."""
    texts: dict[int, str] = {}
    broken: list[int] = []
    left_out = skip.tolist()
    for row, token in enumerate(vocabulary.tokens[:rows]):
        if token is None or left_out[row] or token.kind in (TokenKind.SPECIAL, TokenKind.UNUSED):
            continue
        key = token.key
        if vocabulary.scheme == "wordpiece":
            key = key.removeprefix(b"##") or key
        try:
            texts[row] = key.decode("utf-8")
        except UnicodeDecodeError:
            broken.append(row)
    return texts, broken


def _unreachable(tokenizer: Tokenizer, texts: dict[int, str]) -> list[int]:
    """The rows whose text never comes back as their token."""
    left = list(texts)
    for before in BEFORE:
        encoded = tokenizer.encode_batch_fast(
            [before + texts[row] for row in left], add_special_tokens=False
        )
        left = [row for row, one in zip(left, encoded, strict=True) if row not in one.ids]
        if not left:
            break
    return left


def _tokenizer(path: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingPartError(
            "encoding tokens again needs tokenizers, which is not installed: "
            'pip install "ropewalk[prove]"'
        ) from error
    try:
        tokenizer = Tokenizer.from_buffer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be brought up as a tokenizer: {error}") from error
    # What the file sets for batches of texts.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
