"""Attention by FlexAttention: a bias of distance and the rule of who sees whom, fused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ropewalk.attention.visible import Visible
from ropewalk.kernels.reference import wide
from ropewalk.positions.relative import RelativeBias


@cache
def _compiled(name: str) -> Callable[..., Any]:
    """`flex_attention` or `create_block_mask`, compiled once a process.

    Compiled code calls them as they are: they become part of it.
    """
    from torch.nn.attention import flex_attention as module

    return torch.compile(getattr(module, name), dynamic=None)


def _function(name: str) -> Callable[..., Any]:
    from torch.nn.attention import flex_attention as module

    plain: Callable[..., Any] = getattr(module, name)
    return plain if torch.compiler.is_compiling() else _compiled(name)


def flex(
    q: Tensor, k: Tensor, v: Tensor, bias: RelativeBias | None, visible: Visible, scale: float
) -> Tensor:
    """Attention (batch, heads, q_length, value channels) without a matrix of scores.

    `bias` is looked up by head and distance; grouped keys are served as they are.
    """
    if not torch.is_grad_enabled():
        # On a CPU it refuses tensors that require gradients even where none are recorded.
        q, k, v = q.detach(), k.detach(), v.detach()
    score = None
    if bias is not None:
        tables = bias.tables(q.device, wide(q.dtype))

        def score(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return score + bias.bias_at(head, visible.distance(row, query, key), *tables)

    mask = None
    if visible.causal or not visible.whole:
        # FlexAttention counts a function's arguments, and would count `self` of a method.
        def seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return visible.at(row, head, query, key)

        shape = (visible.rows, visible.heads, q.shape[2], k.shape[2])
        mask = _function("create_block_mask")(seen, *shape, device=q.device)
    grouped = q.shape[1] != k.shape[1]
    out: Tensor = _function("flex_attention")(
        q, k, v, score_mod=score, block_mask=mask, scale=scale, enable_gqa=grouped
    )
    return out
