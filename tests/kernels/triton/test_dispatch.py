"""The public lookup, sent through the interpreted kernels as a GPU's tensors are sent."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from ropewalk.errors import RowError
from ropewalk.kernels import embedding
from ropewalk.kernels.cpu import lookup as cpu


def test_a_lookup_and_its_gradients_go_through_the_kernels_of_the_gpu(
    lookup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_gpu", lambda *_: lookup)
    monkeypatch.setattr(cpu, "serves", lambda *_: False)
    table, added = torch.randn(9, 6, requires_grad=True), torch.randn(5, 6, requires_grad=True)
    ids, places = torch.randint(0, 9, (2, 5)), torch.arange(5)
    grad = torch.randn(2, 5, 6)
    out = embedding.lookup(ids, table, scale=2.5, added=added, position_ids=places)
    plain = table[ids] * 2.5 + added[places]
    assert torch.equal(out, plain)
    found = torch.autograd.grad(out, (table, added), grad)
    wanted = torch.autograd.grad(plain, (table, added), grad)
    for ours, true in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, true)
    with pytest.raises(RowError, match="row 0, column 1"):
        embedding.lookup(torch.tensor([[0, 9]]), table)
