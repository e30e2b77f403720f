"""Attention as a loop over every query, in double precision, to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.attention import AttentionPlan
from ropewalk.attention.attend import AttentionCall, prepare
from ropewalk.positions.base import PositionEncoding

Rule = Callable[[int, int, int, int], float]
"""A number, or whether a key is seen, for batch row, head, query index and key index."""


def plan_of(
    q: Tensor, k: Tensor, v: Tensor, encoding: PositionEncoding, **options: Any
) -> AttentionPlan:
    """How `attention` computes a call of the same arguments."""
    return prepare(AttentionCall(q=q, k=k, v=v, encoding=encoding, **options)).plan


@dataclass(frozen=True)
class Loop:
    """softmax(scale * q k + bias) v, one query at a time; a query that sees nothing gives 0."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, bias: Rule, seen: Rule, scale: float
    ) -> Tensor:
        q, k, v = (x.detach().double() for x in (q, k, v))
        batch, heads, length, _ = q.shape
        group = heads // k.shape[1]
        out = q.new_zeros(batch, heads, length, v.shape[-1])
        for b in range(batch):
            for h in range(heads):
                for i in range(length):
                    keys = [j for j in range(k.shape[2]) if seen(b, h, i, j)]
                    if not keys:
                        continue
                    scores = k[b, h // group, keys] @ q[b, h, i] * scale
                    scores += torch.tensor([bias(b, h, i, j) for j in keys]).double()
                    out[b, h, i] = scores.softmax(0) @ v[b, h // group, keys]
        return out


@pytest.fixture(scope="session")
def loop() -> Loop:
    return Loop()


@pytest.fixture
def qkv() -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """Random q, k and v; the values one channel narrower than the keys."""

    def draw(
        batch: int = 2, heads: int = 4, length: int = 6, kv_heads: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        torch.manual_seed(7)
        kv_heads = kv_heads or heads
        q = torch.randn(batch, heads, length, 8)
        k = torch.randn(batch, kv_heads, length, 8)
        return q, k, torch.randn(batch, kv_heads, length, 7)

    return draw
