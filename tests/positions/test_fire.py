"""FIRE beside a loop written from the paper."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ropewalk.errors import UsageError
from ropewalk.positions.fire import Fire


def by_the_paper(module: Fire, i: int, j: int) -> list[float]:
    """f(psi(i - j) / psi(max(L, i))) for each head, one number at a time."""
    c = float(module.c)
    limit = abs(float(module.threshold_factor) * module.initial_threshold)

    def psi(x: float) -> float:
        return math.log(abs(c * x) + 1)

    x = psi(i - j) / psi(max(limit, i))
    hidden = [
        max(0.0, float(w) * x + float(b))
        for w, b in zip(module.hidden.weight[:, 0], module.hidden.bias, strict=True)
    ]
    return [
        sum(float(w) * h for w, h in zip(row, hidden, strict=True)) + float(b)
        for row, b in zip(module.out.weight, module.out.bias, strict=True)
    ]


@pytest.mark.parametrize(("c", "factor"), [(0.1, 1.0), (-2.0, -0.01)])
def test_the_bias_is_the_network_of_the_paper(c: float, factor: float) -> None:
    torch.manual_seed(0)
    module = Fire(3, width=5).double().requires_grad_(False)
    torch.nn.init.constant_(module.c, c)
    torch.nn.init.constant_(module.threshold_factor, factor)
    q, k = torch.tensor([[0, 3], [511, 90_000]]), torch.tensor([0, 2, 511])
    bias = module.score_bias(q, k)
    assert bias.shape == (2, 3, 2, 3)
    for b in range(2):
        for i in range(2):
            for j in range(3):
                expected = by_the_paper(module, int(q[b, i]), int(k[j]))
                assert bias[b, :, i, j].tolist() == pytest.approx(expected, rel=1e-9)


def test_the_network_never_sees_a_share_outside_0_to_1() -> None:
    ids = torch.tensor([0, 1, 100, 511, 512, 100_000, 1_048_576])
    share = Fire(1).share(ids, ids).detach().tril()
    assert float(share.min()) == 0.0
    assert float(share.max()) == 1.0


def test_every_parameter_is_trained() -> None:
    module = Fire(2, initial_threshold=4.0)
    ids = torch.arange(6)
    module.score_bias(ids, ids).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.abs().sum() > 0), name


def test_a_bias_is_finite_even_where_c_or_the_threshold_fell_to_zero() -> None:
    module = Fire(2)
    torch.nn.init.zeros_(module.c)
    torch.nn.init.zeros_(module.threshold_factor)
    ids = torch.arange(3)
    assert bool(module.score_bias(ids, ids).isfinite().all())


def test_autocast_and_sixteen_bits_leave_the_bias_in_32() -> None:
    module, ids = Fire(2).to(torch.bfloat16), torch.arange(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert module.score_bias(ids, ids).dtype == torch.float32


@pytest.mark.parametrize(
    "sizes",
    [
        {"heads": 0},
        {"heads": 2, "width": 0},
        {"heads": 2, "initial_c": math.nan},
        {"heads": 2, "initial_c": math.inf},
        {"heads": 2, "initial_threshold": 1e300},
    ],
)
def test_sizes_and_starts_that_no_number_can_be_made_of_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be above 0"):
        Fire(**sizes)
