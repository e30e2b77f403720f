"""Every formula against the paper's loop in 50 digits, and invariants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import LengthError, ScheduleError
from ropewalk.rope.frequencies import scaled_inv_freq, schedule
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

mp = mpmath.mp.clone()
mp.dps = 50
Exact = list[mpmath.mpf]


def rotary(scaling: Scaling = UNSCALED, base: float = 1e4, dim: int = 128) -> RotarySpec:
    return RotarySpec(dim, dim, base, scaling=scaling)


# The papers' loops, in 50 digits; written from the formulas, one pair at a time.


def exact_plain(base: float, dim: int) -> Exact:
    return [mp.mpf(base) ** (-mp.mpf(2 * i) / dim) for i in range(dim // 2)]


def exact_ntk(base: float, dim: int, factor: float) -> Exact:
    stretched = mp.mpf(base) * mp.mpf(factor) ** (mp.mpf(dim) / (dim - 2))
    return [stretched ** (-mp.mpf(2 * i) / dim) for i in range(dim // 2)]


def exact_dynamic(base: float, dim: int, factor: float, anchor: int, length: int) -> Exact:
    if length <= anchor:
        return exact_plain(base, dim)
    return exact_ntk(base, dim, mp.mpf(factor) * length / anchor - (mp.mpf(factor) - 1))


def exact_yarn(base: float, dim: int, factor: float, trained: int, truncate: bool) -> Exact:
    def index(turns: int) -> mpmath.mpf:
        return dim * mp.log(trained / (turns * 2 * mp.pi)) / (2 * mp.log(base))

    low, high = index(32), index(1)
    if truncate:
        low, high = mp.floor(low), mp.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    out = []
    for i, frequency in enumerate(exact_plain(base, dim)):
        gamma = min(max((i - low) / (high - low), 0), 1)
        out.append(gamma * frequency / factor + (1 - gamma) * frequency)
    return out


def exact_llama3(base: float, dim: int, factor: float, anchor: int) -> Exact:
    out = []
    for frequency in exact_plain(base, dim):
        wavelength = 2 * mp.pi / frequency
        if wavelength < mp.mpf(anchor) / 4:
            out.append(frequency)
        elif wavelength > anchor:
            out.append(frequency / factor)
        else:
            smooth = (anchor / wavelength - 1) / 3
            out.append((1 - smooth) * frequency / factor + smooth * frequency)
    return out


def exact_by_parts(base: float, dim: int, factor: float, trained: int) -> Exact:
    out = []
    for frequency in exact_plain(base, dim):
        turns = trained / (2 * mp.pi / frequency)
        gamma = 0 if turns < 1 else 1 if turns > 32 else (turns - 1) / 31
        out.append((1 - gamma) * frequency / factor + gamma * frequency)
    return out


def exact_proportional(base: float, head: int, share: float, factor: float) -> Exact:
    live = int(share * head // 2)
    turning = [mp.mpf(base) ** (-mp.mpf(2 * i) / head) / factor for i in range(live)]
    return turning + [mp.mpf(0)] * (head // 2 - live)


LOOPS: list[tuple[str, RotarySpec, int | None, Callable[[], Exact]]] = [
    ("plain", rotary(), None, lambda: exact_plain(1e4, 128)),
    ("plain d2", rotary(dim=2), None, lambda: exact_plain(1e4, 2)),
    ("linear", rotary(Linear(8.0)), None, lambda: [f / 8 for f in exact_plain(1e4, 128)]),
    ("ntk", rotary(Ntk(8.0), 5e5), None, lambda: exact_ntk(5e5, 128, 8)),
    ("dynamic short", rotary(DynamicNtk(2.0, 4096)), 4096, lambda: exact_plain(1e4, 128)),
    ("dynamic long", rotary(DynamicNtk(4.0, 4096)), 16384,
     lambda: exact_dynamic(1e4, 128, 4, 4096, 16384)),
    ("yarn", rotary(Yarn(16.0, 4096)), None, lambda: exact_yarn(1e4, 128, 16, 4096, True)),
    ("yarn raw", rotary(Yarn(32.0, 4096, truncate=False), 150000.0, 64), None,
     lambda: exact_yarn(150000, 64, 32, 4096, False)),
    ("yarn clamped", rotary(Yarn(4.0, 131072), 1e4, 64), None,
     lambda: exact_yarn(1e4, 64, 4, 131072, True)),
    ("by parts", rotary(NtkByParts(16.0, 4096)), None,
     lambda: exact_by_parts(1e4, 128, 16, 4096)),
    ("larger base", rotary(LargerBase(5e5)), None, lambda: exact_plain(5e5, 128)),
    ("proportional", rotary(Proportional(0.25), 1e6, 512), None,
     lambda: exact_proportional(1e6, 512, 0.25, 1)),
    ("proportional odd", rotary(Proportional(0.3, 2.0), 1e6, 20), None,
     lambda: exact_proportional(1e6, 20, 0.3, 2)),
    ("llama3", rotary(Llama3(8.0, 1.0, 4.0, 8192), 5e5), None,
     lambda: exact_llama3(5e5, 128, 8, 8192)),
    ("llama3.2", rotary(Llama3(32.0, 1.0, 4.0, 8192), 5e5, 64), None,
     lambda: exact_llama3(5e5, 64, 32, 8192)),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "length", "exact"), [c[1:] for c in LOOPS],
                         ids=[c[0] for c in LOOPS])  # fmt: skip
def test_each_formula_is_the_papers_loop_to_double_precision(
    encoding: RotarySpec, length: int | None, exact: Callable[[], Exact]
) -> None:
    ours = scaled_inv_freq(encoding, length)
    for mine, true in zip(ours, exact(), strict=True):
        assert mine == pytest.approx(float(true), rel=1e-13)


def test_longrope_divides_each_pair_by_its_own_factor() -> None:
    short = tuple(1.0 + 0.25 * i for i in range(32))
    long = tuple(2.0 + 1.5 * i for i in range(32))
    encoding = rotary(LongRope(short, long, 4096, 32.0), dim=64)
    plain = exact_plain(1e4, 64)
    for length, factors in ((None, short), (4096, short), (4097, long)):
        ours = scaled_inv_freq(encoding, length)
        for mine, true, by in zip(ours, plain, factors, strict=True):
            assert mine == pytest.approx(float(true / by), rel=1e-13)


# What multiplies cos and sin.


@pytest.mark.parametrize(
    ("scaling", "expected", "rule"),
    [
        (Yarn(40.0, 4096, mscale=0.707, mscale_all_dim=0.707), 1.0, "mscale_all_dim 0.707"),
        (Yarn(40.0, 4096, mscale=0.707, mscale_all_dim=0.0), 1.3688879454, "0.1 ln 40"),
        (Yarn(20.0, 4096, mscale=1.0), 1.2995732274, "0.1 ln 20"),  # AFM-4.5B
        (Yarn(40.0, 4096, attention_factor=1.0), 1.0, "as stated"),
        (LongRope((1.0,), (1.0,), 4096, 32.0, attention_factor=1.25), 1.25, "as stated"),
        (Yarn(1.0, 4096), 1.0, "ln 1"),
        (Linear(4.0), 1.0, "linear"),
        (Llama3(8.0, 1.0, 4.0, 8192), 1.0, "llama3"),
    ],
)
def test_the_amplitude_follows_transformers_rules_and_names_the_rule(
    scaling: Scaling, expected: float, rule: str
) -> None:
    value, words = scaling.amplitude()
    assert value == pytest.approx(expected, abs=1e-10)
    assert rule in words


# Invariants.

dims = st.integers(2, 128).map(lambda half: 2 * half)
bases = st.floats(100.0, 1e9)
factors = st.floats(1.0, 128.0)


@given(dims, bases)
def test_plain_frequencies_start_at_one_and_fall(dim: int, base: float) -> None:
    inv = plain_inv_freq(base, dim)
    assert inv[0] == 1.0
    assert all(0.0 < later < earlier for earlier, later in itertools.pairwise(inv))


@given(dims, bases, factors)
def test_ntk_keeps_the_first_pair_and_divides_the_last_by_the_factor(
    dim: int, base: float, factor: float
) -> None:
    ours = scaled_inv_freq(rotary(Ntk(factor), base, dim))
    assert ours[0] == 1.0
    assert ours[-1] == pytest.approx(plain_inv_freq(base, dim)[-1] / factor, rel=1e-12)


@given(dims, st.floats(1000.0, 1e8), factors, st.integers(512, 1 << 20), st.booleans())
def test_yarn_lies_between_interpolation_and_none_and_falls(
    dim: int, base: float, factor: float, trained: int, truncate: bool
) -> None:
    encoding = rotary(Yarn(factor, trained, truncate=truncate), base, dim)
    try:
        ours = scaled_inv_freq(encoding)
    except ScheduleError:
        return  # a ramp that crosses is refused; see its own test
    plain = plain_inv_freq(base, dim)
    ramp = Yarn(factor, trained, truncate=truncate).ramp(base, dim)
    assert all(0.0 <= r <= 1.0 for r in ramp)
    assert ramp == sorted(ramp)
    for mine, frequency in zip(ours, plain, strict=True):
        assert frequency / factor * (1 - 1e-12) <= mine <= frequency * (1 + 1e-12)
    assert all(later <= earlier for earlier, later in itertools.pairwise(ours))


@given(dims, bases, factors, st.integers(1, 1 << 20))
def test_by_parts_never_leaves_the_band_between_kept_and_divided(
    dim: int, base: float, factor: float, trained: int
) -> None:
    ours = scaled_inv_freq(rotary(NtkByParts(factor, trained), base, dim))
    for mine, frequency in zip(ours, plain_inv_freq(base, dim), strict=True):
        assert frequency / factor * (1 - 1e-12) <= mine <= frequency * (1 + 1e-12)


@given(st.integers(2, 40))
def test_a_share_of_the_pairs_is_no_partial_rotation(quarter: int) -> None:
    dim = 8 * quarter
    whole = scaled_inv_freq(rotary(Proportional(0.5), dim=dim))
    part = scaled_inv_freq(RotarySpec(dim, dim // 2, 1e4))
    assert sum(f > 0.0 for f in whole) == len(part)
    assert whole[1] > part[1]


@given(dims, bases, factors, st.integers(1, 4096))
def test_dynamic_at_or_below_its_anchor_is_plain(
    dim: int, base: float, factor: float, length: int
) -> None:
    encoding = rotary(DynamicNtk(factor, 4096), base, dim)
    assert scaled_inv_freq(encoding, length) == pytest.approx(plain_inv_freq(base, dim), rel=1e-12)
    assert scaled_inv_freq(encoding) == scaled_inv_freq(encoding, length)


@given(dims, bases, st.floats(1.0, 8.0), st.integers(4097, 1 << 20))
def test_dynamic_slows_every_pair_more_for_a_longer_prompt(
    dim: int, base: float, factor: float, length: int
) -> None:
    encoding = rotary(DynamicNtk(factor, 4096), base, dim)
    now, later = scaled_inv_freq(encoding, length), scaled_inv_freq(encoding, 2 * length)
    assert all(b <= a for a, b in zip(now, later, strict=True))


@given(st.floats(1.5, 64.0), st.sampled_from([1.0, 2.0, 4.0]))
def test_llama3_is_continuous_where_its_bands_meet(factor: float, turns: float) -> None:
    # The base that puts pair 1 of two at exactly `turns` turns in the reference length.
    anchor = 8192
    base = (anchor / (2 * math.pi * turns)) ** 2
    sides = [
        scaled_inv_freq(rotary(Llama3(factor, 1.0, 4.0, anchor), base * nudge, 4))[1]
        for nudge in (1 - 1e-9, 1 + 1e-9)
    ]
    assert sides[0] == pytest.approx(sides[1], rel=1e-6)


@given(dims, bases, st.floats(1.0, 64.0))
def test_llama3_never_leaves_the_band_between_kept_and_divided(
    dim: int, base: float, factor: float
) -> None:
    ours = scaled_inv_freq(rotary(Llama3(factor, 1.0, 4.0, 8192), base, dim))
    for mine, frequency in zip(ours, plain_inv_freq(base, dim), strict=True):
        assert frequency / factor * (1 - 1e-12) <= mine <= frequency * (1 + 1e-12)


def test_llama3_with_equal_factors_is_a_hard_cut() -> None:
    # Llama 4 Scout: low = high = 1.
    ours = schedule(rotary(Llama3(16.0, 1.0, 1.0, 8192), 5e5))
    divisors = {round(a / b, 9) for a, b in zip(ours.unscaled, ours.inv_freq, strict=True)}
    assert divisors == {1.0, 16.0}


def test_a_fingerprint_tells_frequencies_and_amplitude_apart() -> None:
    plain, yarn = schedule(rotary()), schedule(rotary(Yarn(4.0, 4096)))
    louder = schedule(rotary(Yarn(4.0, 4096, attention_factor=1.0)))
    assert len({plain.fingerprint(), yarn.fingerprint(), louder.fingerprint()}) == 3
    assert schedule(rotary()).fingerprint() == plain.fingerprint()
    assert schedule(rotary(PairDivisors((1.0,) * 64))).fingerprint() == plain.fingerprint()


# Errors that need several values together; what one value can be is in test_scaling and test_spec.


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (rotary(UnknownScaling("telescope")), "'telescope' is not known here"),
        (rotary(Ntk(2.0), dim=2), "needs a rotary dimension above 2, got 2"),
        (rotary(Yarn(4.0, 4)), "too short for beta_fast"),
    ],
)
def test_values_that_give_no_schedule_are_named(encoding: RotarySpec, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        schedule(encoding)


@pytest.mark.parametrize("length", [-1, 2**53 + 1, 1.5, True, math.nan])
def test_an_impossible_length_is_refused(length: float) -> None:
    with pytest.raises(LengthError, match="the length is"):
        schedule(rotary(), length)  # type: ignore[arg-type]
