"""The fingerprint against its documented recipe, and `frequencies` of spec, group and encoding."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import ScheduleError
from ropewalk.rope.angles import Schedule
from ropewalk.rope.frequencies import frequencies, schedule
from ropewalk.rope.schedules import UNSCALED, DynamicNtk, Llama3, LongRope, Scaling, Yarn
from ropewalk.rope.spec import (
    Encoding,
    LayerGroup,
    Length,
    NoPositionSpec,
    PositionSpec,
    RotarySpec,
    SoftmaxRule,
    Window,
)


def rotary(scaling: Scaling = UNSCALED, base: float = 1e4) -> RotarySpec:
    return RotarySpec(128, 128, base, scaling=scaling)


def spec(*groups: LayerGroup) -> PositionSpec:
    return PositionSpec("llama", "by hand", groups, Length.unknown(), Length.unknown())


def group(encoding: Encoding, name: str = "all", softmax: float = 1.0) -> LayerGroup:
    return LayerGroup(name, (0,), encoding, softmax=SoftmaxRule(softmax, "by hand"))


def test_the_fingerprint_of_two_pairs_is_that_of_bytes_written_by_hand() -> None:
    # 2 pairs; 1.0, 0.01 (fp32 0x3c23d70a), amplitude 1.5, softmax 1.0; all little-endian.
    by_hand = bytes.fromhex("020000000000803f0ad7233c0000c03f0000803f")
    built = Schedule((1.0, 0.01), (1.0, 0.01), 1.5, "by hand")
    assert built.fingerprint() == hashlib.sha256(by_hand).hexdigest()[:16] == "0534110a992bd25d"


def test_the_fingerprint_of_llama_2_is_frozen() -> None:
    plain = [10000.0 ** (-2 * i / 128) for i in range(64)]
    recipe = struct.pack("<I", 64) + b"".join(struct.pack("<f", x) for x in [*plain, 1.0, 1.0])
    ours = frequencies(rotary()).fingerprint()
    assert ours == hashlib.sha256(recipe).hexdigest()[:16] == "c08c71a4aaf96967"


@given(st.integers(0, 3), st.floats(1e-6, 0.5), st.sampled_from([-1.0, 1.0]))
def test_any_number_that_moves_by_more_than_fp32_rounding_changes_it(
    which: int, relative: float, sign: float
) -> None:
    built = Schedule((1.0, 0.01), (1.0, 0.01), 1.25, "by hand", 1.5)
    by = 1.0 + sign * relative
    moved = [
        replace(built, inv_freq=(by, 0.01)),
        replace(built, inv_freq=(1.0, 0.01 * by)),
        replace(built, attention_factor=1.25 * by),
        replace(built, softmax_factor=1.5 * by),
    ][which]
    assert moved.fingerprint() != built.fingerprint()


def test_differences_below_fp32_and_names_do_not_change_it() -> None:
    built = Schedule((1.0, 0.01), (1.0, 0.01), 1.25, "one rule", 1.5, ("a",))
    same = Schedule((1.0, 0.01 * (1 + 1e-12)), (2.0, 0.5), 1.25, "another", 1.5, ("b",))
    assert same.fingerprint() == built.fingerprint()


def test_a_group_brings_its_softmax_factor_and_says_so() -> None:
    built = frequencies(group(rotary(), softmax=1.5))
    assert built.softmax_factor == 1.5
    assert built.rules[-1] == "softmax scale x 1.5: by hand"
    assert built.inv_freq == schedule(rotary()).inv_freq
    assert built.fingerprint() != frequencies(rotary()).fingerprint()


def test_a_spec_is_taken_when_its_rotary_groups_agree() -> None:
    windowed = replace(group(rotary(), "local"), window=Window(512))
    agreed = spec(group(rotary(), "full"), windowed, group(NoPositionSpec(), "none"))
    assert frequencies(agreed) == frequencies(group(rotary()))
    with pytest.raises(ScheduleError, match=r"several schedules \(full, other\).*spec.groups"):
        frequencies(spec(group(rotary(), "full"), group(rotary(base=5e5), "other")))
    with pytest.raises(ScheduleError, match="has no complete rotary encoding"):
        frequencies(spec(group(NoPositionSpec())))
    with pytest.raises(ScheduleError, match=r"'all' are no complete rotary .* NoPosition"):
        frequencies(group(NoPositionSpec()))
    with pytest.raises(ScheduleError, match="not from str"):
        frequencies("llama")  # type: ignore[arg-type]


LISTS = LongRope((1.0,) * 64, (2.0,) * 64, 4096, 32.0)


@pytest.mark.parametrize(
    ("scaling", "length", "told"),
    [
        (Yarn(16.0, 4096), None, "from 20 to 46, rounded outwards"),
        (Yarn(16.0, 4096), None, "cos and sin x 1.2772589: 0.1 ln 16 + 1"),
        (Yarn(4.0, 131072, beta_slow=1e-9), None, "is held at 127"),
        (Yarn(4.0, 128, beta_fast=32.0), None, "and is held at 0"),
        (LISTS, 4096, "the short factors, 4096 tokens being no more than 4096"),
        (LISTS, 4097, "the long factors, 4097 tokens being more than 4096"),
        (LISTS, None, "the short factors, as for up to 4096 tokens"),
        (DynamicNtk(2.0, 4096), 8192, "2 x 8192 / 4096 - 1 = 3 raises the base to 30527.737"),
        (DynamicNtk(2.0, 4096), 4096, "base 10000 as it is, up to 4096 tokens"),
        (Llama3(8.0, 1.0, 4.0, 8192), None, "pairs kept"),
    ],
)
def test_the_rules_that_fired_are_told(scaling: Scaling, length: int | None, told: str) -> None:
    assert any(told in rule for rule in frequencies(rotary(scaling), length).rules)
