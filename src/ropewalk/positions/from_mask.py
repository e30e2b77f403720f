"""Position ids from a padding mask, by the convention a model was trained with."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ropewalk.errors import TensorError, UsageError

Convention = Literal["gpt2", "bert", "roberta"]
"""How a model counts; see `position_ids_from_mask`."""

ROBERTA_PADDING = 1
"""The id of RoBERTa's padding token, and the position of all padding; real tokens start at 2."""


def position_ids_from_mask(
    mask: Tensor, convention: Convention = "gpt2", padding_position: int | None = None
) -> Tensor:
    """Positions (batch, sequence), int64, for a mask that is 1 or True at real tokens.

    - "gpt2", and every decoder: real tokens count 0, 1, 2 .. in each row wherever padding
      stands; padding takes `padding_position`, 0 unless given (transformers before version 5
      filled in 1). It is masked, so the value decides nothing, but it has to be a position.
    - "bert": the column, whatever the mask says; rows are to be padded on the right.
    - "roberta": padding takes 1 (or `padding_position`), real tokens count on from there.

    Raises TensorError for another shape or type, UsageError for an unknown convention.
    """
    if mask.dim() != 2:
        raise TensorError(f"the mask has shape {tuple(mask.shape)}; it must be (batch, sequence)")
    if mask.is_floating_point() or mask.is_complex():
        raise TensorError(
            f"the mask has dtype {mask.dtype}; it must hold True or 1 at real tokens, False or 0 "
            "at padding"
        )
    real = mask != 0
    if convention == "bert":
        return torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    count = real.long().cumsum(dim=1)
    if convention == "gpt2":
        return (count - 1).masked_fill(~real, padding_position or 0)
    if convention == "roberta":
        padding = ROBERTA_PADDING if padding_position is None else padding_position
        return count.masked_fill(~real, 0) + padding
    raise UsageError(
        f"convention {convention!r} is not known; there are 'gpt2', 'bert' and 'roberta'"
    )
