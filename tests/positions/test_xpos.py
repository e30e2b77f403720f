"""XPos: the paper's decay, one centre for queries and cached keys, and an end before overflow."""

from __future__ import annotations

import math

import pytest
import torch

from ropewalk.errors import PositionError, UsageError
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.xpos import XPos
from ropewalk.rope import spec

ROTARY = spec.RotarySpec(8, 8, 10_000.0, "interleaved")


def vectors(length: int) -> torch.Tensor:
    return torch.randn(1, 2, length, 8, generator=torch.Generator().manual_seed(0))


def test_a_score_carries_zeta_to_the_distance_over_512() -> None:
    encoding = XPos(ROTARY)
    for pair in range(4):
        one = torch.zeros(1, 1, 1, 8, dtype=torch.float64)
        one[..., 2 * pair] = 1.0
        q, k = encoding.rotate(one, one, torch.tensor([900]), torch.tensor([388]))
        gap, zeta = 512, (2 * pair + 0.4 * 8) / (1.4 * 8)
        expected = math.cos(gap * 10_000 ** (-2 * pair / 8)) * zeta
        assert float((q * k).sum()) == pytest.approx(expected, rel=1e-9)


def test_the_centre_moves_no_score() -> None:
    q, k = vectors(20), vectors(20) + 1
    scores = [
        torch.einsum("bhid,bhjd->bhij", *XPos(ROTARY, centre=c).rotate(q, k, torch.arange(20)))
        for c in (0, 10, 400)
    ]
    assert torch.allclose(scores[0], scores[1], atol=1e-5)
    assert torch.allclose(scores[0], scores[2], atol=1e-4)


def test_one_query_against_cached_keys_scores_as_in_a_full_pass() -> None:
    # With a centre from each tensor's length, pair 0 would be off by a factor of 0.2857 here.
    q, k = vectors(1024), vectors(1024)
    encoding = XPos(ROTARY, centre=512)
    full_q, full_k = encoding.rotate(q, k, torch.arange(1024))
    last_q, cached_k = encoding.rotate(q[:, :, -1:], k, torch.tensor([1023]), torch.arange(1024))
    assert torch.equal(last_q, full_q[:, :, -1:])
    assert torch.equal(cached_k, full_k)


def test_without_decay_it_is_rotation() -> None:
    q = vectors(5)
    plain = Rotary(ROTARY).rotate(q, q, torch.arange(5))
    endless = XPos(ROTARY, scale_base=1e12).rotate(q, q, torch.arange(5))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(plain, endless, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_up_to_its_reach_values_are_finite_and_beyond_it_refused(dtype: torch.dtype) -> None:
    encoding = XPos(ROTARY, centre=50_000)
    reach = encoding.reach(dtype)
    q = torch.ones(1, 1, 2, 8, dtype=dtype)
    ids = torch.tensor([50_000 - reach, 50_000 + reach])
    for rotated in encoding.rotate(q, q, ids):
        assert rotated.isfinite().all()
        assert rotated.float().norm(dim=-1).min() > 0
    with pytest.raises(PositionError, match=f"holds {50_001 + reach} at column 1.*move the centre"):
        encoding.rotate(q, q, ids + 1)


def test_the_stated_reaches_are_right() -> None:
    encoding = XPos(ROTARY)
    assert 17_500 < encoding.reach(torch.float32) < 18_500
    assert 17_500 < encoding.reach(torch.bfloat16) < 18_500
    assert 1_950 < encoding.reach(torch.float16) < 2_000


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_base_that_is_no_length_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="scale_base"):
        XPos(ROTARY, scale_base=value)


def test_sections_are_refused() -> None:
    with pytest.raises(UsageError, match="sections"):
        XPos(spec.RotarySpec(8, 8, 10_000.0, sections=(2, 1, 1)))


def test_gradients_are_those_of_finite_differences() -> None:
    q = vectors(3).double().requires_grad_()
    k = (vectors(3) + 1).double().requires_grad_()
    encoding = XPos(ROTARY)
    ids = torch.tensor([0, 300, 900])
    assert torch.autograd.gradcheck(lambda q, k: encoding.rotate(q, k, ids), (q, k))
