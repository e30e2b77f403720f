"""Which tokens their own tokenizer can make: decoded, and encoded again.

Tokens that no text becomes are never trained (Land & Bartolo, arXiv 2405.05417, section 3.1, call
them unreachable). A token's text is what the vocabulary says it adds; it is encoded alone and
after a few characters, for many tokens only ever follow others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk.errors import ConfigError, MissingPartError
from ropewalk.short import short
from ropewalk.tables.health.scan import Scan, Stretch
from ropewalk.tables.vocabulary import Kind

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from ropewalk.tables.vocabulary import Vocabulary

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
    undecodable: Stretch
    unreachable: Stretch


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
        if token is None or left_out[row] or token.kind in (Kind.SPECIAL, Kind.UNUSED):
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
