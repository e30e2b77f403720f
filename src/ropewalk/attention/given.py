"""Masks as transformers hands them to a model, made into bools."""

from __future__ import annotations

import torch
from torch import Tensor

from ropewalk.errors import TensorError


def real_tokens(attention_mask: Tensor | None, batch: int, total: int) -> Tensor | None:
    """Bools (batch, total), True at real tokens; None where nothing is padding.

    Raises TensorError for another shape.
    """
    if attention_mask is None:
        return None
    if tuple(attention_mask.shape) != (batch, total):
        raise TensorError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; it is ({batch}, {total}): "
            "a row for each sequence, and all of its tokens, cached ones included"
        )
    real = attention_mask != 0
    return None if bool(real.all()) else real


def query_mask(attention_mask: Tensor, length: int, total: int) -> Tensor:
    """A mask for every query (batch or 1, heads or 1, length, total) as bools: True where it may
    look. Given as bools, or as numbers that are added to scores: 0 there. Raises TensorError.
    """
    if tuple(attention_mask.shape[2:]) != (length, total):
        raise TensorError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; with four dimensions it is "
            f"(batch, heads, {length}, {total})"
        )
    return attention_mask if attention_mask.dtype == torch.bool else attention_mask == 0
