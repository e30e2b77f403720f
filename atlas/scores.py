"""Attention that a model computes itself, watched where it multiplies queries by keys.

Such code does not ask transformers' attention functions. Each product of queries and keys is noted
that a softmax takes afterwards; run once more with those products at zero, what reaches the softmax
is what is added to them: the mask, and a bias where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_PRODUCTS = {_aten.bmm.default: (0, 1), _aten.baddbmm.default: (1, 2)}


@dataclass(slots=True)
class Scored:
    """Queries and keys as (heads, positions, channels), and what the softmax was given."""

    query: Tensor
    key: Tensor
    scores: Tensor
    layer: int | None
    before: list[Tensor]


@dataclass(slots=True)
class _Product:
    query: Tensor
    key: Tensor
    shape: tuple[int, ...]
    before: list[Tensor]


class Watch(TorchDispatchMode):
    """Notes products of a run's queries that a softmax takes; `blank` puts zeros in their place.

    `run` is an `atlas.probe.Seen`, whose layer and last outputs the model's hooks keep.
    """

    def __init__(self, run: Any, *, blank: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length, self.run, self.blank = run.length, run, blank
        self.found: list[Scored] = []
        self._waiting: list[_Product] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _PRODUCTS:
            first, second = _PRODUCTS[func]
            query, key = args[first], args[second]
            if query.dim() == 3 and query.shape[1] == self.length:
                self._waiting.append(
                    _Product(
                        query.detach().double(),
                        key.detach().double().transpose(1, 2),
                        (query.shape[0], self.length, key.shape[2]),
                        list(self.run.recent),
                    )
                )
                if self.blank and key.shape[2] >= self.length:
                    given = list(args)
                    given[first] = torch.zeros_like(query)
                    return func(*given, **kwargs)
        elif func is _aten._softmax.default:
            self._taken(args[0])
        return func(*args, **kwargs)

    def _taken(self, scores: Tensor) -> None:
        if scores.dim() < 3 or scores.shape[-2] != self.length:
            return
        flat = scores.detach().reshape(-1, *scores.shape[-2:]).double()
        for product in reversed(self._waiting):
            if product.shape == tuple(flat.shape):
                self.found.append(
                    Scored(product.query, product.key, flat, self.run.layer, product.before)
                )
                break
        self._waiting.clear()


def scaling_and_bias(
    seen: Scored, blank: Scored, other: Scored
) -> tuple[float | None, Tensor | None]:
    """What products are multiplied by before the softmax, and what is added to them.

    `blank` is the same run without products, `other` that of another token without them.
    The bias is (1, heads, queries, keys). Both are None where what is added goes by the query.
    """
    bias = blank.scores
    product = seen.query @ seen.key.transpose(1, 2)
    shown = bias > -1e4
    if float((bias - other.scores)[shown].abs().max()) > 1e-6:
        return None, None
    there, ours = (seen.scores - bias)[shown], product[shown]
    scaling = float((there @ ours) / (ours @ ours))
    if float((there - scaling * ours).abs().max()) > 1e-4 * float(there.abs().max()):
        return None, None
    return scaling, bias[None]
