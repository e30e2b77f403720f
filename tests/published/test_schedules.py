"""Published numbers of rotary schedules, each stated once: ramps, bases, divisors, amplitudes.

Sources: YaRN (2309.00071) and its authors' code, the NTK-aware proposal, Llama 3.1's and 3.2's
rule, LongRoPE (2402.13753) as Phi-3-mini-128k ships it, and "Base of RoPE Bounds Context Length"
(2405.14591). Bounds, divisors and bases were computed from these in plain Python, outside this
package; tolerances are the last printed digit.
"""

from __future__ import annotations

import pytest

from ropewalk.rope.diagnostics import local_resolution, minimum_base, similarity_horizon
from ropewalk.rope.frequencies import frequencies, scaled_inv_freq, schedule
from ropewalk.rope.schedules import (
    UNSCALED,
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    Scaling,
    Yarn,
    ntk_base,
    plain_inv_freq,
    yarn_mscale,
)
from ropewalk.rope.schedules.longrope import longrope_amplitude
from ropewalk.rope.spec import RotarySpec


def rotary(scaling: Scaling = UNSCALED, base: float = 1e4, dim: int = 128) -> RotarySpec:
    return RotarySpec(dim, dim, base, scaling=scaling)


def divisors(encoding: RotarySpec, length: int | None = None) -> list[float]:
    built = schedule(encoding, length)
    return [a / b for a, b in zip(built.unscaled, built.inv_freq, strict=True)]


VECTORS: list[tuple[RotarySpec, int | None, dict[int, float]]] = [
    (rotary(Yarn(16.0, 4096)), None,
     {0: 1.0, 16: 0.1, 20: 0.0562341, 30: 0.00852684377, 45: 1.517716e-4, 46: 8.3345e-5,
      63: 7.217387e-6}),
    (rotary(Llama3(8.0, 1.0, 4.0, 8192), 5e5), None,
     {29: 0.0021665708, 30: 0.0013718936, 31: 0.00085675141, 32: 0.00052484616,
      33: 0.00031269375, 34: 0.00017850781, 63: 3.068926e-07}),
    (rotary(Llama3(32.0, 1.0, 4.0, 8192), 5e5, 64), None,
     {15: 0.00129054793, 16: 0.00042955680, 17: 9.7082878e-05, 31: 9.418307e-08}),
    (rotary(Ntk(8.0)), None, {0: 1.0, 1: 0.837848, 63: 1.44347748e-05}),
    (rotary(Yarn(40.0, 4096), dim=64), None, {0: 1.0, 31: 3.3338e-06}),
    (RotarySpec(128, 32, 1e4), None, {1: 0.56234}),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "length", "expected"), VECTORS)
def test_published_frequencies_come_out(
    encoding: RotarySpec, length: int | None, expected: dict[int, float]
) -> None:
    ours = scaled_inv_freq(encoding, length)
    for index, value in expected.items():
        assert ours[index] == pytest.approx(value, rel=2e-5)  # printed to 5 digits or more


@pytest.mark.parametrize(
    ("dim", "base", "expected"),
    [
        (128, 1e4, (20_221.3, 40_889.9424, 82_684.6226, 167_198.7, 338_096.9)),
        (128, 5e5, (1_011_063, 2_044_497, 4_134_231, 8_359_937, 16_904_847)),
        (128, 1e6, (2_022_126, 4_088_994, 8_268_462, 16_719_874, 33_809_695)),
        (64, 1e4, (20_452.2, 41_829.4, 85_550.4, 174_969.6, 357_851.8)),
    ],
)  # fmt: skip
def test_ntk_bases_for_factors_2_to_32_are_the_published_ones(
    dim: int, base: float, expected: tuple[float, ...]
) -> None:
    found = [ntk_base(base, dim, factor) for factor in (2, 4, 8, 16, 32)]
    assert found == pytest.approx(expected, rel=3e-6)


@pytest.mark.parametrize(
    ("factor", "length", "expected"),
    [(2.0, 8192, 30_527.7367), (2.0, 16384, 72_195.860), (2.0, 32768, 156_588.3),
     (4.0, 8192, 51_293.8), (4.0, 16384, 135_401.973), (4.0, 32768, 305_922)],
)  # fmt: skip
def test_dynamic_bases_are_the_published_ones(factor: float, length: int, expected: float) -> None:
    ours = scaled_inv_freq(rotary(DynamicNtk(factor, 4096)), length)
    assert ours[1] ** (-128 / 2) == pytest.approx(expected, rel=3e-6)


@pytest.mark.parametrize(
    ("dim", "base", "trained", "raw", "used"),
    [
        (128, 1e4, 4096, (20.94448, 45.02688), (20, 46)),
        (128, 1e4, 2048, (16.1280, 40.2104), (16, 41)),
        (64, 1e4, 4096, (10.47224, 22.51344), (10, 23)),
        (128, 1e6, 32768, (23.59595, 39.65088), (23, 40)),
        (64, 150000.0, 4096, (8.092779115512402, 17.39802450158856), (8, 18)),
        (128, 5e5, 8192, (18.0811, 34.9841), (18, 35)),
        (128, 1e4, 8192, None, (25, 50)),
    ],
)
def test_the_ends_of_yarns_ramp_are_the_published_ones(
    dim: int, base: float, trained: int, raw: tuple[float, float] | None, used: tuple[int, int]
) -> None:
    assert Yarn(4.0, trained).bounds(base, dim) == used
    if raw is not None:
        ours = Yarn(4.0, trained, truncate=False).bounds(base, dim)
        assert ours == pytest.approx(raw, rel=3e-6)


def test_qwen_2_5_times_4_has_the_published_divisors() -> None:
    found = divisors(rotary(Yarn(4.0, 32768), 1e6))
    published = {23: 1.0, 24: 1.0462, 28: 1.283, 32: 1.6585, 36: 2.3448, 39: 3.4, 40: 4.0}
    for index, value in published.items():
        assert found[index] == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(2, 1.0693147181), (4, 1.1386294361), (8, 1.2079441542), (16, 1.2772588722),
     (32, 1.3465735903), (40, 1.3688879454), (64, 1.4158883083)],
)  # fmt: skip
def test_yarns_amplitude_is_the_published_one(factor: float, expected: float) -> None:
    assert yarn_mscale(factor) == pytest.approx(expected, abs=1e-10)
    assert Yarn(factor, 4096).amplitude()[0] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    ("factor", "trained", "expected"),
    [(32, 4096, 1.1902380714), (2, 4096, 1.0408329997), (16, 8192, 1.1435437498)],
)
def test_longropes_amplitude_is_the_published_one(
    factor: float, trained: int, expected: float
) -> None:
    assert longrope_amplitude(factor, trained) == pytest.approx(expected, abs=1e-10)


# YaRN's two ramps: Llama-2 times 16, as the paper has it (in turns) and as its code (in index).
BOTH_RAMPS = {
    24: (1.525, 1.169), 28: (2.612, 1.405), 33: (4.927, 1.882), 40: (10.57, 3.586),
    45: (15.97, 10.15),
}  # fmt: skip


@pytest.mark.parametrize(("pair", "published"), BOTH_RAMPS.items())
def test_llama_2_times_16_has_the_published_divisors_of_both_ramps(
    pair: int, published: tuple[float, float]
) -> None:
    paper, code = rotary(NtkByParts(16.0, 4096)), rotary(Yarn(16.0, 4096))
    assert (divisors(paper)[pair], divisors(code)[pair]) == pytest.approx(published, rel=5e-4)


def test_qwen_2_5_with_the_wrong_original_length_is_another_model() -> None:
    wrong = Yarn(4.0, 131072, truncate=False).bounds(1e6, 128)
    assert wrong == pytest.approx((30.02, 46.07), abs=5e-3)


def test_llama_3_1_keeps_29_pairs_blends_6_and_divides_29() -> None:
    encoding = rotary(Llama3(8.0, 1.0, 4.0, 8192), 5e5)
    found = divisors(encoding)
    assert found[:29] == [1.0] * 29
    published = [1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327]
    assert found[29:35] == pytest.approx(published, abs=5e-7)
    assert found[35:] == pytest.approx([8.0] * 29, rel=1e-12)
    assert "29 pairs kept, 6 blended, 29 divided by 8" in frequencies(encoding).rules


def test_llama_3_2_blends_three_pairs() -> None:
    found = divisors(rotary(Llama3(32.0, 1.0, 4.0, 8192), 5e5, 64))
    assert found[:15] == [1.0] * 15
    assert found[15:18] == pytest.approx([1.6513, 3.2923, 9.6667], abs=5e-5)
    assert found[18:] == pytest.approx([32.0] * 14, rel=1e-12)


PHI_3_LONG = (
    1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.30, 1.45, 1.60, 1.65, 1.90, 2.86, 3.69, 5.42, 5.49, 5.49,
    9.09, 11.58, 15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01, 32.35, 32.59, 35.56, 39.95, 53.84,
    56.20, 57.95, 59.29, 59.77, 59.92, 61.19, 61.96, 62.50, 63.37, 63.48, 63.48, 63.66, 63.85,
    64.08, 64.76, 64.80, 64.81, 64.81,
)  # fmt: skip
PHI_3_SHORT = (
    *(1.05,) * 3, *(1.1,) * 3, *(1.25,) * 2, 1.4, 1.45, 1.55, 1.85, 1.9, *(2.0,) * 19, 2.1, 2.1,
    2.2, *(2.35,) * 4, 2.4, 2.4, 2.65, 2.7, 2.9, 2.95, *(3.05,) * 3,
)  # fmt: skip
PHI_3 = RotarySpec(96, 96, 1e4, scaling=LongRope(PHI_3_SHORT, PHI_3_LONG, 4096, 32.0))


def test_phi_3_divides_by_its_published_lists_with_its_amplitude_in_both() -> None:
    assert divisors(PHI_3, 4096) == pytest.approx(PHI_3_SHORT, rel=1e-12)
    assert divisors(PHI_3, 4097) == pytest.approx(PHI_3_LONG, rel=1e-12)
    for length in (4096, 131072):
        assert schedule(PHI_3, length).attention_factor == pytest.approx(1.190238, abs=5e-7)


def test_phi_3s_long_list_moves_the_horizon_as_published() -> None:
    assert similarity_horizon(schedule(PHI_3, 131072).inv_freq, 131072) == 42_348


# The smallest base for a length at 128 channels: the tighter of the published searches.
MINIMUM = [
    (1024, 4.3e3), (2048, 1.2e4), (4096, 2.7e4), (8192, 8.4e4), (16384, 2.3e5), (32768, 6.3e5),
    (65536, 2.1e6),
]  # fmt: skip


@pytest.mark.parametrize(("length", "published"), MINIMUM)
def test_the_smallest_base_for_a_length_is_the_published_one(length: int, published: float) -> None:
    found = minimum_base(128, length)
    assert float(f"{found:.1e}") == published  # two digits are printed
    if published != 1.2e4:  # 1.16e4, of which two digits are 3 % off
        assert found == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("length", "published"), [(131072, 4.9e6), (4096, 2.7e4), (32768, 6.3e5), (65536, 2.1e6)]
)
def test_a_published_base_holds_to_its_length_or_beyond_but_for_rounding(
    length: int, published: float
) -> None:
    horizon = similarity_horizon(plain_inv_freq(published, 128), 2 * length)
    assert horizon is None or horizon >= 0.95 * length


@pytest.mark.parametrize(
    ("length", "published"),
    [
        (1024, 4.3e3), (4096, 2.7e4), (8192, 8.4e4), (16384, 2.3e5), (32768, 6.3e5),
        (65536, 2.1e6), (131072, 4.9e6), (524288, 6.4e7), (1048576, 6.5e7),
    ],
)  # fmt: skip
def test_within_2_percent_of_a_published_minimum_a_base_holds_to_its_length(
    length: int, published: float
) -> None:
    grid = (published * (0.98 + 0.0005 * step) for step in range(81))
    assert any(similarity_horizon(plain_inv_freq(base, 128), length) is None for base in grid)


# Published for 256k, and for 512k by the tighter search: no base near them holds to its length,
# by this very definition. In tokens, the farthest that any within 2 % of them does.
NOT_REPRODUCED = [(262144, 2.4e7, 229_804), (524288, 5.8e7, 503_644)]


@pytest.mark.parametrize(("length", "published", "farthest"), NOT_REPRODUCED)
def test_two_published_minima_fall_short_of_their_length(
    length: int, published: float, farthest: int
) -> None:
    grid = (published * (0.98 + 0.0005 * step) for step in range(81))
    horizons = [similarity_horizon(plain_inv_freq(base, 128), length) for base in grid]
    assert None not in horizons
    best = max(h for h in horizons if h is not None)
    assert best == pytest.approx(farthest, rel=0.02)


def test_what_costs_local_resolution_is_linear_scaling() -> None:
    # Interpolation by 16 brings neighbours some 16 times closer; YaRN and NTK spare fast pairs.
    linear, yarn, ntk = (
        local_resolution(schedule(rotary(each)))
        for each in (Linear(16.0), Yarn(16.0, 4096), Ntk(16.0))
    )
    assert linear == pytest.approx(1 / 256, rel=0.1)
    assert yarn > 0.99
    assert 0.5 < ntk < yarn
