"""FlexAttention computes what the dense bias computes; where it is chosen, and where refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention as module

from ropewalk.attention import attention, flex
from ropewalk.attention.plan import Needs, choose
from ropewalk.errors import UsageError
from ropewalk.positions.alibi import Alibi
from ropewalk.positions.fire import Fire
from ropewalk.positions.kerple import KerpleLog
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.relative import RelativeBias
from ropewalk.positions.t5 import T5Bias
from tests.attention.conftest import plan_of

Draw = Callable[..., tuple[Tensor, Tensor, Tensor]]
GPU: dict[str, Any] = {"shape": (1, 8, 4096, 4096), "device": "cuda", "kernel": "auto"}


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention's own reference code, without minutes of compiling."""
    monkeypatch.setattr(flex, "_compiled", lambda name: getattr(module, name))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    "build",
    [
        lambda: T5Bias(4, bidirectional=True, buckets=8, max_distance=5),
        lambda: KerpleLog(4),
        lambda: Alibi(4, symmetric=True),
        lambda: Alibi(4),
    ],
)
def test_flex_and_the_dense_bias_agree(qkv: Draw, build: Callable[[], RelativeBias]) -> None:
    q, k, v = (x.requires_grad_() for x in qkv(kv_heads=2))
    segment_ids = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    ids = torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5]])
    mask = torch.tensor([[True] * 5 + [False], [True] * 6])
    options: dict[str, Any] = {"position_ids": ids, "segment_ids": segment_ids, "mask": mask}
    encoding = build()
    with torch.no_grad():
        fused = attention(q, k, v, encoding, kernel="flex", **options)
        dense = attention(q, k, v, encoding, **options)
    torch.testing.assert_close(fused, dense, rtol=1e-5, atol=1e-5)


def test_a_gpu_fuses_what_depends_on_distance_alone() -> None:
    plan = choose(Needs(bias="relative", whole=True, trains=True, can_fuse=True, **GPU))
    assert plan.path == "flex"
    plan = choose(Needs(bias="none", whole=False, trains=True, can_fuse=True, **GPU))
    assert plan.path == "flex"
    plan = choose(Needs(bias="factored", whole=True, trains=True, can_fuse=True, **GPU))
    assert plan.path == "features"
    plan = choose(Needs(bias="general", whole=True, trains=False, can_fuse=False, **GPU))
    assert str(plan) == (
        "dense bias: the bias does not factor into features and depends on more than the "
        "distance, so it cannot be fused either. A bias of 1 x 8 x 4096 x 4096 in fp32, 512 MiB, "
        "handed over in the dtype of the queries."
    )


def test_where_flex_cannot_serve_it_is_refused(qkv: Draw) -> None:
    q, k, v = qkv()
    ids = torch.arange(6)
    with pytest.raises(UsageError, match="no backward pass on CPUs"):
        attention(q, k, v, T5Bias(4, bidirectional=True), position_ids=ids, kernel="flex")
    with pytest.raises(UsageError, match="more than head and distance"), torch.no_grad():
        attention(q, k, v, Fire(4), position_ids=ids, kernel="flex")
    plan = plan_of(q, k, v, NoPosition(), position_ids=ids, kernel="flex")
    assert (plan.path, plan.reason) == ("flex", "asked for")
