"""The loss in chunks, against the model's own logits taken whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from ropewalk.extension.tune.loss import LossModel, predicted


@pytest.mark.parametrize(("chunk", "kept"), [(3, False), (64, False), (3, True)])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_chunks_give_the_loss_and_gradients_of_whole_logits(
    tiny_model: Callable[..., Any], kind: str, chunk: int, *, kept: bool
) -> None:
    """gemma3 with a soft cap on its logits, which stands outside the head."""
    changes = {"final_logit_softcapping": 1.5} if kind == "gemma3" else {}
    model = tiny_model(kind, num_hidden_layers=2, **changes).requires_grad_(True)
    ids = torch.randint(2, 1200, (2, 11), generator=torch.Generator().manual_seed(1))
    labels = ids.clone()
    labels[0, :4] = -100
    logits = model(ids, use_cache=False).logits[:, :-1]
    wanted = cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
    wanted.backward()
    gradients = {name: each.grad.clone() for name, each in model.named_parameters()}
    model.zero_grad()

    loss = LossModel(model, chunk, kept=kept)(labels=labels, input_ids=ids)
    loss.backward()
    torch.testing.assert_close(loss, wanted)
    for name, each in model.named_parameters():
        torch.testing.assert_close(each.grad, gradients[name], atol=1e-4, rtol=1e-4)
    assert predicted(labels) == 17
    assert type(model.model).__name__ != "_Given"
