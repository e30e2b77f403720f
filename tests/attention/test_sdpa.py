"""Under a bias, weights below the normal range are zero while the kernel runs, and only then."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from ropewalk.attention import attention
from ropewalk.kernels.cpu.library import native
from ropewalk.positions.alibi import Alibi

LENGTH = 512
"""The steepest of 8 heads has a slope of 1/2: in fp32 e^-256 is zero, and e^-90 is subnormal."""


class Seen(TorchDispatchMode):
    """By kernel of attention: whether a subnormal number was zero when it was called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flushed: dict[str, bool] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        name = func.__name__
        if "attention" in name:
            with torch._C._DisableTorchDispatch():
                self.flushed[name] = bool(torch.full((), 1e-39) * 1 == 0)
        return func(*args, **(kwargs or {}))


def operands(dtype: torch.dtype = torch.float32, kv_heads: int = 8) -> list[Tensor]:
    torch.manual_seed(0)
    heads = (8, kv_heads, kv_heads)
    return [torch.randn(1, n, LENGTH, 16, dtype=dtype, requires_grad=True) for n in heads]


def exact(q: Tensor, k: Tensor, v: Tensor, slopes: tuple[float, ...], symmetric: bool) -> Tensor:
    """softmax(q k / 4 - m |i - j|) v as it is written, in double precision."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(8 // x.shape[1], dim=1) for x in (k, v))
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    bias = -torch.tensor(slopes).double().view(-1, 1, 1) * distance.abs()
    if not symmetric:
        bias = bias.masked_fill(distance < 0, -torch.inf)
    return (q @ k.mT / 4 + bias).softmax(-1) @ v


@pytest.mark.skipif(native() is None, reason="compiled kernels")
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_both_passes_run_without_subnormal_numbers_and_leave_no_trace(
    symmetric: bool, masked: bool
) -> None:
    q, k, v = operands()
    mask = torch.ones(1, LENGTH, dtype=torch.bool) if masked else None
    with Seen() as seen:
        out = attention(
            q, k, v, Alibi(8, symmetric=symmetric), position_ids=torch.arange(LENGTH), mask=mask,
            causal=not symmetric,
        )  # fmt: skip
        out.sum().backward()
    assert len(seen.flushed) == 2
    assert all(seen.flushed.values()), seen.flushed
    assert torch.full((), 1e-39) * 1 != 0


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("kv_heads", [8, 2])
def test_outputs_and_gradients_are_those_of_the_formula(symmetric: bool, kv_heads: int) -> None:
    q, k, v = operands(kv_heads=kv_heads)
    encoding, weights = Alibi(8, symmetric=symmetric), torch.randn(1, 8, LENGTH, 16)
    ours = attention(q, k, v, encoding, position_ids=torch.arange(LENGTH), causal=not symmetric)
    meant = exact(q, k, v, encoding.slopes, symmetric)
    torch.testing.assert_close(ours.double(), meant, rtol=1e-5, atol=1e-5)
    found = torch.autograd.grad((ours * weights).sum(), (q, k, v))
    right = torch.autograd.grad((meant * weights).sum(), (q, k, v))
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_kernel_that_the_caller_chose_is_the_one_that_runs() -> None:
    q, k, v = operands()
    with Seen() as seen, sdpa_kernel(SDPBackend.MATH):
        attention(q, k, v, Alibi(8), position_ids=torch.arange(LENGTH)).sum().backward()
    assert not any("flash" in name for name in seen.flushed)


def test_a_step_may_be_taken_back_twice_over_one_graph() -> None:
    q, k, v = operands()
    out = attention(q, k, v, Alibi(8), position_ids=torch.arange(LENGTH)).sum()
    first = torch.autograd.grad(out, (q, k, v), retain_graph=True)
    second = torch.autograd.grad(out, (q, k, v))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
