"""Token ids that a tokenizer gives and a model's embedding table has no row for.

A tokenizer may know more tokens than its model has rows: a padding token that was added and never
given one, mostly. That harms nothing until a text holds such a token; then no answer can be had,
and a lookup fails with no more than an index. So the ids of a text are looked at before the model
is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ropewalk.errors import RowError


def check_rows(
    ids: Sequence[int] | npt.NDArray[Any], rows: int, spell: Callable[[int], object], where: str
) -> None:
    """Raise RowError for the first of `ids` that is not below `rows`.

    `spell(id)` is the token's text, `where` says what the ids are of: "sentence 2", or a file.
    """
    held = np.asarray(ids)
    beyond = np.flatnonzero(held >= rows)
    if len(beyond):
        at = int(beyond[0])
        token = int(held[at])
        raise RowError(
            f"token {token} ({str(spell(token))!r:.80}), number {at + 1} of the {len(held):,} "
            f"tokens of {where}, has no row in the model's table: it has {rows:,} rows, for ids 0 "
            f"to {rows - 1}; take the token out of the text or the tokenizer, or give it a row "
            f"(model.resize_token_embeddings({token + 1}) of transformers, and save the model)"
        )


def has_rowless(tokenizer: Any, rows: int) -> bool:
    """Whether a tokenizer of transformers has any id for which a table of `rows` has no row."""
    return max(tokenizer.get_vocab().values(), default=-1) >= rows


def padding_of(tokenizer: Any, rows: int | None) -> int:
    """What pads rows: the tokenizer's padding token, or its EOS, or 0; one that has a row.

    Padding is never predicted nor seen, and still has to be looked up.
    """
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    fitting = (i for i in known if i is not None and (rows is None or i < rows))
    return int(next(fitting, 0))
