"""Diagnostics against the published tables and the definitions written out slowly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import LengthError
from ropewalk.rope.diagnostics import (
    alibi_slopes,
    extrapolation_limit,
    local_resolution,
    minimum_base,
    neighbour_distance,
    pair_rows,
    similarity_horizon,
    trained_inv_freq,
)
from ropewalk.rope.frequencies import scaled_inv_freq, schedule
from ropewalk.rope.schedules import (
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    PairDivisors,
    Proportional,
    Scaling,
    Unscaled,
    Yarn,
    plain_inv_freq,
)
from ropewalk.rope.schedules.larger_base import critical_base
from ropewalk.rope.schedules.longrope import critical_dimension
from ropewalk.rope.spec import RotarySpec, Window

# Liu et al., "Scaling Laws of RoPE-based Extrapolation" (2310.05209), applied to published models.
CRITICAL = [
    ("Llama-1", 128, 1e4, 2048, 82),
    ("Llama-2", 128, 1e4, 4096, 92),
    ("Code Llama", 128, 1e6, 16384, 74),
    ("Mistral v0.1", 128, 1e4, 8192, 100),
    ("Mistral v0.2", 128, 1e6, 32768, 80),
    ("Llama-3", 128, 5e5, 8192, 70),
    ("Qwen2.5", 128, 1e6, 32768, 80),
    ("Qwen3", 128, 1e6, 40960, 82),
    ("Phi-3-mini", 96, 1e4, 4096, 68),
    ("Gemma-1", 256, 1e4, 8192, 200),
    ("Gemma-3 global", 256, 1e6, 32768, 160),
    ("Pythia", 32, 1e4, 2048, 22),
    ("Llama-3.2-1B", 64, 5e5, 8192, 36),
    ("Qwen2.5-0.5B", 64, 1e6, 32768, 40),
    ("TinyLlama", 64, 1e4, 2048, 42),
    ("SmolLM3 32k", 128, 1.5e6, 32768, 78),
    ("SmolLM3 64k", 128, 5e6, 65536, 78),
    ("ProLong 64k", 128, 8e6, 65536, 76),
    ("ProLong 512k", 128, 1.28e8, 524288, 78),
    ("Apertus 64k", 128, 12e6, 65536, 74),
]


@pytest.mark.parametrize(("name", "dim", "base", "trained", "expected"), CRITICAL)
def test_the_critical_dimension_is_the_published_one(
    name: str, dim: int, base: float, trained: int, expected: int
) -> None:
    assert critical_dimension(dim, base, trained) == expected, name


@given(
    dim=st.integers(1, 128).map(lambda half: 2 * half),
    base=st.floats(1.5, 1e9),
    trained=st.integers(1, 1 << 22),
)
def test_the_critical_dimension_is_an_even_count_of_channels(
    dim: int, base: float, trained: int
) -> None:
    value = critical_dimension(dim, base, trained)
    assert value % 2 == 0
    assert 0 <= value <= dim


@pytest.mark.parametrize(
    ("target", "expected"),
    [(8192, 26_784), (16384, 71_738), (32768, 192_144), (65536, 514_640),
     (131072, 1_378_414), (1 << 20, 26_485_466)],
)  # fmt: skip
def test_llama_2s_critical_bases_are_the_published_ones(target: int, expected: int) -> None:
    assert round(critical_base(1e4, 4096, target)) == expected


@pytest.mark.parametrize(
    ("base", "expected"),
    [(1e4, 4712), (2e4, 7754), (5e4, 14_982), (1e5, 24_656), (5e5, 78_400), (1e6, 129_027)],
)
def test_llama_2s_extrapolation_limits_are_the_published_ones(base: float, expected: int) -> None:
    assert round(extrapolation_limit(128, 92, base)) == expected


HORIZONS = [
    (128, 1e4, 1707), (128, 2.7e4, 4079), (128, 8.4e4, 8592), (128, 1e5, 7757),
    (128, 2.3e5, 12_865), (128, 3.1e5, 12_223), (128, 5e5, 18_438), (128, 6.3e5, 33_259),
    (128, 6.4e5, 27_685), (128, 1e6, 27_115), (128, 1.5e6, 33_769), (128, 2.1e6, 77_306),
    (128, 4.9e6, 125_573), (128, 5e6, 82_999), (128, 8e6, 61_936), (128, 12e6, 74_163),
    (128, 1.28e8, 605_269), (64, 1e4, 725), (64, 5e5, 9937), (64, 1e6, 6235), (96, 1e4, 1046),
    (96, 5e5, 14_160), (96, 1e6, 17_156), (256, 1e4, 2653), (256, 5e5, 37_791),
    (256, 1e6, 71_627),
]  # fmt: skip


@pytest.mark.parametrize(("dim", "base", "expected"), HORIZONS)
def test_the_similarity_horizon_is_the_published_integer(
    dim: int, base: float, expected: int
) -> None:
    assert similarity_horizon(plain_inv_freq(base, dim), 1 << 20) == expected


SCALED_HORIZONS: list[tuple[float, int, Scaling, int, int]] = [
    (5e5, 131072, Llama3(8.0, 1.0, 4.0, 8192), 131072, 85_133),
    (1e6, 131072, Yarn(4.0, 32768), 131072, 66_234),
    (1e4, 65536, Linear(16.0), 65536, 27_297),
    (1e4, 65536, Yarn(16.0, 4096), 65536, 11_671),
    (1e4, 65536, Ntk(16.0), 65536, 7_920),
    (1e4, 32768, Linear(8.0), 32768, 13_649),
    (1e4, 32768, Yarn(8.0, 4096), 32768, 8_886),
    (1e4, 32768, Ntk(8.0), 32768, 5_732),
    (1e4, 131072, Linear(32.0), 131072, 54_594),
    (1e4, 131072, Yarn(32.0, 4096), 131072, 25_500),
    (1e4, 131072, Ntk(32.0), 131072, 10_629),
]


@pytest.mark.parametrize(("base", "limit", "scaling", "length", "expected"), SCALED_HORIZONS)
def test_scaled_schedules_have_the_published_horizons(
    base: float, limit: int, scaling: Scaling, length: int, expected: int
) -> None:
    rotary = RotarySpec(128, 128, base, scaling=scaling)
    assert similarity_horizon(scaled_inv_freq(rotary, length), limit) == expected


def test_the_horizon_is_the_first_negative_sum_of_a_plain_loop() -> None:
    for base in (50.0, 700.0, 9000.0):
        inv = plain_inv_freq(base, 32)
        slow = next((m for m in range(4000) if math.fsum(math.cos(m * f) for f in inv) < 0.0), None)
        assert similarity_horizon(inv, 4000) == slow


def test_a_horizon_at_or_past_the_limit_is_not_reported() -> None:
    inv = plain_inv_freq(1e4, 128)
    assert similarity_horizon(inv, 1707) is None
    assert similarity_horizon(inv, 1708) == 1707


def test_a_head_that_rotates_half_of_its_channels_or_fewer_has_no_horizon() -> None:
    inv = plain_inv_freq(1e4, 64)
    assert similarity_horizon(inv, 1 << 17, still_pairs=32) is None
    assert similarity_horizon(inv, 1 << 17) == 725


def _turned(scaling: Scaling, trained: int, claimed: int, window: Window | None = None) -> int:
    rows = pair_rows(RotarySpec(128, 128, 1e4, scaling=scaling), trained, claimed, window)
    return sum(bool(row.unseen) for row in rows)


def test_without_scaling_every_pair_short_of_a_rotation_meets_new_angles() -> None:
    # Llama-2: d_extra 92 of 128 channels, so 64 - 46 pairs never closed the circle.
    assert _turned(Unscaled(), 4096, 8192) == 18
    assert _turned(Unscaled(), 4096, 4096) == 0


@pytest.mark.parametrize("scaling", [Linear(4.0), Yarn(4.0, 4096)])
def test_a_stretch_equal_to_the_ratio_of_the_lengths_shows_nothing_new(scaling: Scaling) -> None:
    assert _turned(scaling, 4096, 16384) == 0
    assert _turned(scaling, 4096, 32768) > 0


def test_ntk_scaling_shows_new_angles_between_the_critical_and_the_last_pair() -> None:
    # Only the last pair is divided by the whole factor.
    rows = pair_rows(RotarySpec(128, 128, 1e4, scaling=Ntk(4.0)), 4096, 16384)
    assert rows[63].divisor == pytest.approx(4.0)
    assert [row.index for row in rows if row.unseen] == list(range(46, 63))


def test_dynamic_scaling_is_read_at_the_claimed_length() -> None:
    rows = pair_rows(RotarySpec(128, 128, 1e4, scaling=DynamicNtk(2.0, 4096)), 4096, 8192)
    assert rows[63].divisor == pytest.approx(3.0)  # 2 * 8192 / 4096 - 1


def test_llama_3_1_stretches_half_as_far_as_it_claims() -> None:
    rows = pair_rows(RotarySpec(128, 128, 5e5, scaling=Llama3(8.0, 1.0, 4.0, 8192)), 8192, 131072)
    assert [row.index for row in rows if row.unseen] == list(range(35, 64))
    assert rows[34].divisor == pytest.approx(5.257327, abs=1e-6)


def test_longrope_compares_long_factors_with_the_short_ones_of_training() -> None:
    short, long = (2.0,) * 64, (2.0,) * 63 + (16.0,)
    rotary = RotarySpec(128, 128, 1e4, scaling=LongRope(short, long, 4096, 8.0))
    rows = pair_rows(rotary, 4096, 32768)
    assert trained_inv_freq(rotary, 4096, 32768)[63] == rows[63].unscaled / 2.0
    assert rows[63].unseen is False  # swept 8 times further at an eighth of the speed
    assert rows[62].unseen is True
    assert rows[62].rotations == pytest.approx(4096 * rows[62].unscaled / 2.0 / (2 * math.pi))


def test_a_table_that_training_used_shows_nothing_new_at_its_own_length() -> None:
    divisors = PairDivisors((1.0,) * 32 + (8.0,) * 32)
    rows = pair_rows(RotarySpec(128, 128, 1e4, scaling=divisors), 8192, 8192)
    assert rows[63].rotations == pytest.approx(8192 * rows[63].inv_freq / (2 * math.pi))
    assert not any(row.unseen for row in rows)


def test_a_window_bounds_the_distances_that_training_and_claim_show() -> None:
    assert _turned(Unscaled(), 4096, 131072, Window(128)) == 0
    assert _turned(Unscaled(), 4096, 131072, Window(8192)) == 18


def test_without_lengths_nothing_is_said_about_training() -> None:
    for row in pair_rows(RotarySpec(64, 64, 1e4), None, 4096):
        assert (row.rotations, row.unseen) == (None, None)
    for row in pair_rows(RotarySpec(64, 64, 1e4), 4096, None):
        assert row.rotations is not None
        assert row.unseen is None


def test_alibi_slopes_are_those_of_the_reference_code() -> None:
    assert alibi_slopes(8) == tuple(2.0**-k for k in range(1, 9))
    assert [math.log2(s) for s in alibi_slopes(6)] == [-2, -4, -6, -8, -1, -3]
    assert [math.log2(s) for s in alibi_slopes(12)][8:] == pytest.approx([-0.5, -1.5, -2.5, -3.5])
    assert [math.log2(s) for s in alibi_slopes(3)] == [-4, -8, -2]


def test_impossible_lengths_are_located_errors() -> None:
    with pytest.raises(LengthError, match="trained length is 0"):
        critical_dimension(64, 1e4, 0)
    with pytest.raises(LengthError, match="more than 6 tokens"):
        critical_base(1e4, 6, 4096)
    with pytest.raises(LengthError, match="limit is 0"):
        similarity_horizon((1.0,), 0)


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=8), st.integers(0, 1000))
def test_the_distance_of_neighbours_is_that_of_the_vectors_themselves(
    inv_freq: list[float], position: int
) -> None:
    def encoding(p: int) -> list[float]:
        return [turned(p * f) for f in inv_freq for turned in (math.cos, math.sin)]

    pairs = zip(encoding(position), encoding(position + 1), strict=True)
    assert neighbour_distance(inv_freq) == pytest.approx(
        sum((a - b) ** 2 for a, b in pairs), rel=1e-9
    )


def test_local_resolution_is_the_closed_form() -> None:
    one_pair = schedule(RotarySpec(2, 2, 1e4, scaling=Linear(4.0)))
    assert local_resolution(one_pair) == pytest.approx((1 - math.cos(0.25)) / (1 - math.cos(1)))
    assert local_resolution(schedule(RotarySpec(64, 64, 1e4))) == 1.0


def test_the_smallest_base_is_the_first_of_the_scan_that_holds() -> None:
    found = minimum_base(32, 200, step=0.05)
    inv = plain_inv_freq(found, 32)
    assert all(math.fsum(math.cos(m * f) for f in inv) >= 0.0 for m in range(200))
    assert similarity_horizon(plain_inv_freq(found / 1.05, 32), 200) is not None


def test_a_base_that_cannot_be_is_refused() -> None:
    with pytest.raises(LengthError, match="no base up to 1e"):
        minimum_base(2, 100, step=0.5)
    with pytest.raises(LengthError, match="length is 0"):
        minimum_base(64, 0)
    with pytest.raises(LengthError, match="step is 0"):
        minimum_base(64, 100, step=0.0)


def test_pairs_that_stand_still_meet_no_new_angles() -> None:
    rows = pair_rows(RotarySpec(64, 64, 1e6, scaling=Proportional(0.25)), 4096, 131072)
    assert [row.index for row in rows if row.wavelength == math.inf] == list(range(8, 32))
    assert not any(row.unseen for row in rows[8:])
    assert similarity_horizon([row.inv_freq for row in rows], 1 << 17) is None
