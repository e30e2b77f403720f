"""The loss of a causal model, its head run over a piece of the row at a time.

The logits of 32,768 tokens of a vocabulary of 128,256 are 16 GiB in float32, and their gradient
as much again. Here a piece of `CHUNK` tokens goes through the head, gives its loss, and is
computed anew on the way back; or kept, where blocks are kept too.

What a model does to its logits (a soft cap, a scale) stands in its own forward, and is not
repeated here: the model is called once for the hidden states, and once a piece with a stand-in
for its blocks, which hands it the piece's hidden states.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CHUNK = 1024
"""Tokens whose logits are held at once."""
IGNORED = -100
"""The label of a token that is not to be predicted."""


class _Given(nn.Module):
    """Stands in for a model's blocks, and gives hidden states that are known already."""

    def __init__(self, output: Any, hidden: Tensor) -> None:
        super().__init__()
        self._output = copy.copy(output)
        self._output["last_hidden_state"] = hidden

    def forward(self, *_: Any, **__: Any) -> Any:
        """The output of the blocks, with the piece's hidden states in it."""
        return self._output


class LossModel(nn.Module):
    """`causal`, a causal model of transformers, as a module that returns a sum of losses.

    `chunk` tokens go through the head at once, and again on the way back unless `kept`.
    """

    def __init__(self, causal: Any, chunk: int = CHUNK, *, kept: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.chunk, self._kept = chunk, kept
        self._place = causal.base_model_prefix

    def forward(self, labels: Tensor, **given: Any) -> Tensor:
        """The sum of the losses, in nats, of all tokens whose label is not IGNORED.

        `labels` (batch, length) int64 as `PackedBatch.labels`: each token's own id, shifted here.
        `given` is what `Handing.of` makes. Returns a float32 scalar.
        """
        output = getattr(self.causal, self._place)(**given, use_cache=False)
        hidden = output.last_hidden_state[:, :-1]
        wanted = labels[:, 1:]
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        for start in range(0, wanted.shape[1], self.chunk):
            piece = slice(start, start + self.chunk)
            part = output, hidden[:, piece], wanted[:, piece]
            if self._kept:
                total = total + self._loss(*part)
            else:
                total = total + checkpoint(self._loss, *part, use_reentrant=False)
        return total

    def _loss(self, output: Any, hidden: Tensor, wanted: Tensor) -> Tensor:
        with self._stand_in(output, hidden):
            logits = self.causal(input_ids=wanted, use_cache=False).logits
        return nn.functional.cross_entropy(
            logits.float().flatten(0, 1), wanted.flatten(), ignore_index=IGNORED, reduction="sum"
        )

    @contextmanager
    def _stand_in(self, output: Any, hidden: Tensor) -> Iterator[None]:
        modules = self.causal._modules
        blocks = modules[self._place]
        modules[self._place] = _Given(output, hidden)
        try:
            yield
        finally:
            modules[self._place] = blocks


def predicted(labels: Tensor) -> int:
    """How many tokens of `labels` (batch, length) have a loss: those behind the first column."""
    return int((labels[:, 1:] != IGNORED).sum())
