"""Rows that are known never to have been a token of any text, without a registry of models.

Four sources: rows that no token belongs to, tokens whose name says that they are unused or
reserved, bytes that no UTF-8 text holds, and rows that the caller names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.health.scan import Scan, Stretch
from ropewalk.tables.vocabulary import Kind, Token

if TYPE_CHECKING:
    from torch import Tensor

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
class Source:
    """One reason to know rows as unused, and the rows."""

    reason: str
    rows: Stretch


@short
@dataclass(frozen=True)
class KnownUnused:
    """All known rows as a mask (rows,) bool, and where they come from, each row once.

    Rows with NaN or infinity are left out.
    """

    mask: Tensor
    sources: tuple[Source, ...]

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
            sources.append(Source(reason, found.stretch(new, shown)))
    return KnownUnused(taken & found.finite & ~found.oversized, tuple(sources))


def says_unused(token: Token) -> bool:
    """Whether the tokenizer marks a token as unused, or its name in brackets says so."""
    if _SENTINEL.fullmatch(token.piece):
        return False
    return token.kind is Kind.UNUSED or _NAMED.fullmatch(token.piece) is not None


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
