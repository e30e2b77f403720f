"""Kerple's kernels beside loops written from the paper."""

from __future__ import annotations

import math

import pytest
import torch

from ropewalk.positions.kerple import KerpleLog, KerplePower

R1, R2 = [0.5, 1.75, 0.01], [0.3, 1.0, 1.9]


def values(numbers: list[float]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize("kind", [KerpleLog, KerplePower])
def test_the_bias_is_the_kernel_of_the_paper(kind: type[KerpleLog | KerplePower]) -> None:
    module = kind(3).double()
    module.set_values(values(R1), values(R2))
    q, k = torch.tensor([7, 100_000]), torch.tensor([[0, 7, 9], [1, 99_999, 6]])
    bias = module.score_bias(q, k).detach()
    assert bias.shape == (2, 3, 2, 3)
    for b in range(2):
        for h, (r1, r2) in enumerate(zip(R1, R2, strict=True)):
            for i in range(2):
                for j in range(3):
                    gap = abs(int(q[i] - k[b, j]))
                    log, power = -r1 * math.log(1 + r2 * gap), -r1 * gap**r2
                    expected = log if kind is KerpleLog else power
                    assert float(bias[b, h, i, j]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", [KerpleLog, KerplePower])
def test_parameters_keep_to_the_papers_bounds_wherever_training_takes_them(
    kind: type[KerpleLog | KerplePower],
) -> None:
    module = kind(4)
    for push in (-30.0, 30.0):
        torch.nn.init.constant_(module.raw_r1, push)
        torch.nn.init.constant_(module.raw_r2, push)
        assert bool((module.r1 > 0).all() and (module.r2 > 0).all())
        assert kind is KerpleLog or bool((module.r2 <= 2).all())


@pytest.mark.parametrize("kind", [KerpleLog, KerplePower])
def test_a_new_module_starts_in_the_authors_range(kind: type[KerpleLog | KerplePower]) -> None:
    module = kind(500)
    for drawn, highest in ((module.r1.detach(), 2.0), (module.r2.detach(), 1.0)):
        assert 0.0099 <= float(drawn.min()) < 0.1
        assert 0.9 * highest < float(drawn.max()) <= highest + 1e-6


@pytest.mark.parametrize("kind", [KerpleLog, KerplePower])
def test_gradients_are_those_of_finite_differences(kind: type[KerpleLog | KerplePower]) -> None:
    module = kind(2).double()
    ids = torch.arange(4)

    def bias(r1: torch.Tensor, r2: torch.Tensor) -> torch.Tensor:
        named = {"raw_r1": r1, "raw_r2": r2}
        return torch.func.functional_call(module, named, (ids,))  # type: ignore[no-any-return]

    module.forward = lambda positions: module.score_bias(positions, positions)
    inputs = tuple(p.detach().clone().requires_grad_() for p in module.parameters())
    assert torch.autograd.gradcheck(bias, inputs)


def test_sixteen_bit_parameters_still_give_a_bias_in_32() -> None:
    module = KerpleLog(2).to(torch.bfloat16)
    ids = torch.arange(5)
    assert module.score_bias(ids, ids).dtype == torch.float32
