"""Packed rows, one document at a time: no mask, and no score between documents is ever computed.

A mask of length x length costs every row the square of its length, whoever may see whom. Documents
known by their offsets each go through the plain causal kernel instead, which costs the sum of the
squares of their lengths. On a GPU the kernels with offsets of their own (flash-attn's varlen,
FlexAttention) do as much in one launch; on a CPU FlexAttention does too, but has no gradients.

For models of transformers: `register()`, then the offsets as keyword arguments beside the ids.

    model.set_attn_implementation(register())
    model(batch.input_ids, position_ids=batch.position_ids, **batch.varlen.transformers())
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.attention.visible import Visible
from ropewalk.errors import UsageError
from ropewalk.rope.spec import Window

NAME = "ropewalk-packed"


def register() -> str:
    """Make `packed_attention` known to transformers under the name that is returned."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)
    return NAME


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    cu_seq_lens_q: Tensor | None = None,
    sliding_window: int | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each document, as transformers' interface for attention asks.

    `query` (batch, heads, length, head_dim), `key` and `value` (batch, kv_heads, length, head_dim)
    of the same tokens; `cu_seq_lens_q` (documents + 1,), int32: offsets into the tokens of all rows
    laid end to end, none of which may lie across two rows. Without them each row is one document.
    `sliding_window`: a query sees so many keys, its own among them. Returns (batch, length, heads,
    head_dim) in the dtype of `value`, and None for the weights.

    Raises UsageError for what it would have to leave out: a mask, a cache, sinks, capped scores,
    attention that is not causal; and for offsets that do not cover the rows.
    """
    _check(module, query, key, attention_mask, other)
    found = by_document(
        query, key, value, _sizes(cu_seq_lens_q, query.shape[0], query.shape[2]),
        scale=scaling, window=sliding_window,
        dropout=dropout if getattr(module, "training", False) else 0.0,
    )  # fmt: skip
    return found.transpose(1, 2), None


def by_document(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sizes: Sequence[int],
    *,
    scale: float | None = None,
    window: int | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Causal attention within each of `sizes` tokens of all rows laid end to end.

    q (batch, heads, length, head_dim), k and v (batch, kv_heads, length, ...); (batch, heads,
    length, value channels) comes back. A query sees `window` keys at most.
    """
    batch, heads, length, _ = q.shape
    # Split at once: the gradient of a slice would be as large as the row, for each document.
    parts = [each.transpose(1, 2).flatten(0, 1).split(list(sizes)) for each in (q, k, v)]
    found = []
    for each in zip(*parts, strict=True):
        size = len(each[0])
        reach = window if window and size > window else None
        one_q, one_k, one_v = (part.transpose(0, 1)[None] for part in each)
        done = functional.scaled_dot_product_attention(
            one_q, one_k, one_v,
            attn_mask=None if reach is None else _within(size, reach, q.device),
            dropout_p=dropout, is_causal=reach is None, scale=scale,
            enable_gqa=heads != k.shape[1],
        )  # fmt: skip
        found.append(done[0].transpose(0, 1))
    return torch.cat(found).view(batch, length, heads, v.shape[-1]).transpose(1, 2)


def _check(
    module: Any, query: Tensor, key: Tensor, mask: Tensor | None, other: dict[str, Any]
) -> None:
    if mask is not None:
        raise UsageError(
            f"a mask of {tuple(mask.shape)} was given to attention over packed rows, which has "
            "none; give cu_seq_lens_q, or choose the attention 'sdpa'"
        )
    if query.shape[2] != key.shape[2]:
        raise UsageError(
            f"{query.shape[2]} queries meet {key.shape[2]} keys: packed rows have no cache; give "
            "use_cache=False, or choose the attention 'sdpa'"
        )
    if not other.get("is_causal", getattr(module, "is_causal", True)):
        raise UsageError(
            f"{type(module).__name__} is not causal, and packed rows are; choose the attention "
            "'sdpa'"
        )
    for name in ("s_aux", "softcap"):
        if other.get(name) is not None:
            raise UsageError(
                f"{type(module).__name__} attends with {name}, which attention over packed rows "
                "does not know; choose the attention 'eager'"
            )


def _sizes(offsets: Tensor | None, batch: int, length: int) -> list[int]:
    """Tokens of each document, in the order of all rows laid end to end."""
    if offsets is None:
        return [length] * batch
    ends = [int(end) for end in offsets.tolist()]
    sizes = [end - start for start, end in pairwise(ends)]
    if not sizes or ends[0] or ends[-1] != batch * length or min(sizes) < 1:
        told = ", ".join(map(str, ends[:6])) + (", ..." if len(ends) > 6 else "")
        raise UsageError(
            f"cu_seq_lens_q is [{told}]; offsets rise from 0 to {batch * length}, the tokens of "
            f"{batch} rows of {length}"
        )
    missing = set(range(0, batch * length, length)).difference(ends)
    if missing:
        raise UsageError(
            f"cu_seq_lens_q has no offset {min(missing)}, where a row of {length} tokens begins, "
            "so that a document would lie across two rows"
        )
    return sizes


def _within(length: int, window: int, device: torch.device) -> Tensor:
    """Which of a document's keys each query sees, (1, 1, length, length)."""
    order = torch.arange(length, device=device)[None]
    return Visible(
        q_positions=order, k_positions=order, same_tokens=True, causal=True, window=Window(window)
    ).matrix()
