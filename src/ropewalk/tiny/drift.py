"""Whether words that share contexts have drifted together in a table: a figure, before and after.

The haystack's grammar puts words of one list into the same places: trades, things, places. Their
rows start out at random and come to point the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ropewalk.proof.words import WORD_LISTS
from ropewalk.short import short

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@short
@dataclass(frozen=True, slots=True)
class WordDrift:
    """Mean cosine of two words of the same list, and of two lists; `words` that are one token."""

    within: float
    across: float
    words: int


def drift(table: Tensor, tokenizer: Tokenizer) -> WordDrift:
    """The figure for a table (rows, width). Words of several tokens are left out."""
    ids: list[int] = []
    lists: list[int] = []
    for number, words in enumerate(WORD_LISTS):
        for word in words:
            found = tokenizer.encode(f" {word}", add_special_tokens=False).ids
            if len(found) == 1:
                ids.append(found[0])
                lists.append(number)
    unit = torch.nn.functional.normalize(table.detach()[ids].double(), dim=-1)
    cosines = unit @ unit.T
    group = torch.tensor(lists)
    same = group[:, None] == group[None, :]
    other = ~torch.eye(len(ids), dtype=torch.bool)
    return WordDrift(
        round(float(cosines[same & other].mean()), 4),
        round(float(cosines[~same].mean()), 4),
        len(ids),
    )
