"""Scalings on top of scalings: exact where they multiply, refused with the reason elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import ScheduleError
from ropewalk.rope.compose import compose
from ropewalk.rope.frequencies import scaled_inv_freq
from ropewalk.rope.schedules import (
    UNSCALED,
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    Scaling,
    UnknownScaling,
    Yarn,
    plain_inv_freq,
)
from ropewalk.rope.spec import RotarySpec

factors = st.floats(1.0, 64.0)


def rotary(scaling: Scaling = UNSCALED) -> RotarySpec:
    return RotarySpec(64, 64, 1e4, scaling=scaling)


@given(factors, factors)
def test_linear_on_linear_divides_by_the_product(first: float, second: float) -> None:
    both = compose(rotary(Linear(first)), Linear(second))
    expected = [f / first / second for f in plain_inv_freq(1e4, 64)]
    assert scaled_inv_freq(both) == pytest.approx(expected, rel=1e-12)


@given(factors, factors)
def test_ntk_on_ntk_divides_the_slowest_pair_by_the_product(first: float, second: float) -> None:
    ours = scaled_inv_freq(compose(rotary(Ntk(first)), Ntk(second)))
    assert ours[0] == 1.0
    assert ours[-1] == pytest.approx(plain_inv_freq(1e4, 64)[-1] / first / second, rel=1e-12)


def test_a_divisor_a_pair_and_linear_commute() -> None:
    divisors = PairDivisors(tuple(1.0 + i for i in range(32)))
    expected = [f / (1.0 + i) / 4.0 for i, f in enumerate(plain_inv_freq(1e4, 64))]
    for both in (compose(rotary(divisors), Linear(4.0)), compose(rotary(Linear(4.0)), divisors)):
        assert scaled_inv_freq(both) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scaling", [Linear(4.0), Ntk(4.0), Yarn(4.0, 4096), DynamicNtk(2.0, 64)])
def test_any_scaling_may_stand_on_a_larger_base(scaling: Scaling) -> None:
    both = compose(rotary(LargerBase(5e5)), scaling)
    assert scaled_inv_freq(both, 128) == scaled_inv_freq(
        RotarySpec(64, 64, 5e5, scaling=scaling), 128
    )


@pytest.mark.parametrize("scaling", [Linear(4.0), Ntk(4.0)])
def test_the_base_below_a_factor_may_change(scaling: Scaling) -> None:
    assert compose(rotary(scaling), LargerBase(5e5)) == RotarySpec(64, 64, 5e5, scaling=scaling)


def test_the_last_of_two_bases_counts() -> None:
    both = compose(rotary(LargerBase(5e5)), LargerBase(1e6))
    assert scaled_inv_freq(both) == plain_inv_freq(1e6, 64)


@pytest.mark.parametrize("scaling", [UNSCALED, Linear(2.0), Yarn(4.0, 4096), Proportional(0.25)])
def test_nothing_on_top_and_nothing_below_change_nothing(scaling: Scaling) -> None:
    assert compose(rotary(scaling), UNSCALED) == rotary(scaling)
    assert compose(rotary(), scaling) == rotary(scaling)


TWO_LISTS = LongRope((1.0,) * 32, (2.0,) * 32, 4096, 2.0)
DIVISORS = PairDivisors((1.0,) * 32)


@pytest.mark.parametrize(
    ("present", "scaling", "reason"),
    [
        (Yarn(4.0, 4096), Linear(2.0), "yarn chooses its pairs by the rotations"),
        (Linear(2.0), Yarn(4.0, 4096), "yarn chooses its pairs by the rotations"),
        (Yarn(4.0, 4096), LargerBase(5e5), "yarn chooses its pairs by the rotations"),
        (Yarn(4.0, 4096), Yarn(4.0, 4096), "yarn chooses its pairs by the rotations"),
        (NtkByParts(4.0, 4096), Linear(2.0), "by parts chooses its pairs"),
        (Llama3(8.0, 1.0, 4.0, 8192), Linear(2.0), "llama3 chooses its pairs"),
        (TWO_LISTS, Linear(2.0), "longrope holds divisors that were searched"),
        (DynamicNtk(2.0, 4096), Linear(2.0), "dynamic changes its base with the length"),
        (DIVISORS, Ntk(2.0), "already holds the whole rule of each pair"),
        (Linear(2.0), Proportional(0.25), "proportional belongs to the architecture"),
        (Linear(2.0), UnknownScaling("telescope"), "telescope is not known here"),
        (Linear(2.0), Ntk(2.0), "by shares that no engine knows"),
        (Ntk(2.0), Linear(2.0), "by shares that no engine knows"),
    ],
)
def test_what_means_nothing_is_refused_with_its_reason(
    present: Scaling, scaling: Scaling, reason: str
) -> None:
    with pytest.raises(ScheduleError, match=f"cannot stand on top of .*{reason}.*unscaled"):
        compose(rotary(present), scaling)
