"""Cached keys moved to another schedule equal keys rotated by it from the start."""

from __future__ import annotations

import pytest
import torch

from ropewalk.errors import PositionError, ScheduleError
from ropewalk.positions import Rotary, RotatedHeads
from ropewalk.positions.rotary import rerotate
from ropewalk.rope import spec
from ropewalk.rope.schedules import DynamicNtk, LongRope, Yarn

IDS = torch.tensor([[0, 1, 2, 100, 4000], [5, 6, 7, 8, 9]])


def keys() -> torch.Tensor:
    return torch.randn(2, 2, 5, 8, generator=torch.Generator().manual_seed(0))


def rotated(encoding: Rotary, k: torch.Tensor, ids: torch.Tensor = IDS) -> torch.Tensor:
    return encoding.rotate(k, k, ids)[1]


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_keys_follow_dynamic_scaling_as_the_length_grows(layout: spec.Layout) -> None:
    rope = Rotary(spec.RotarySpec(8, 8, 10_000.0, layout, scaling=DynamicNtk(2.0, 4096)))
    short, long = rope.at_length(4096), rope.at_length(8192)
    moved = rerotate(rotated(short, keys()), short, long, IDS)
    assert torch.allclose(moved, rotated(long, keys()), atol=1e-5)


def test_keys_follow_longrope_across_its_switch() -> None:
    scaling = LongRope((1.0,) * 4, (1.0, 2.0, 4.0, 8.0), 4096, 32.0)
    rope = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=scaling))
    short, long = rope.at_length(10), rope.at_length(5000)
    moved = rerotate(rotated(short, keys()), short, long, IDS)
    assert torch.allclose(moved, rotated(long, keys()), atol=1e-5)


def test_an_amplitude_is_taken_off_and_put_on() -> None:
    plain = Rotary(spec.RotarySpec(8, 4, 10_000.0))
    yarn = Rotary(spec.RotarySpec(8, 4, 10_000.0, scaling=Yarn(4.0, 64)))
    there = rerotate(rotated(plain, keys()), plain, yarn, IDS)
    assert torch.allclose(there, rotated(yarn, keys()), atol=1e-5)
    assert torch.allclose(rerotate(there, yarn, plain, IDS), rotated(plain, keys()), atol=1e-5)


def test_keys_shift_when_the_tokens_before_them_are_dropped() -> None:
    rope = Rotary(spec.RotarySpec(8, 8, 10_000.0))
    later = IDS + 700
    moved = rerotate(rotated(rope, keys(), later), rope, rope, later, IDS)
    assert torch.allclose(moved, rotated(rope, keys()), atol=1e-5)


def test_half_precision_keys_are_moved_with_one_rounding() -> None:
    rope = Rotary(spec.RotarySpec(8, 8, 10_000.0))
    cached = rotated(rope, keys()).bfloat16()
    moved = rerotate(cached, rope, rope, IDS, IDS + 700)
    exact = rerotate(cached.double(), rope, rope, IDS, IDS + 700)
    # Half a unit in the last place of a number below 4.
    assert (moved.double() - exact).abs().max() <= 2.0**-7


def test_heads_that_do_not_rotate_stay() -> None:
    rope = Rotary(spec.RotarySpec(8, 8, 10_000.0), rotated=RotatedHeads((0,), (0,)))
    moved = rerotate(rotated(rope, keys()), rope, rope, IDS, IDS + 3)
    assert torch.allclose(moved, rotated(rope, keys(), IDS + 3), atol=1e-5)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Rotary(spec.RotarySpec(8, 4, 10_000.0)), "rotary_dim 8 and are to be rotated with 4"),
        (Rotary(spec.RotarySpec(8, 8, 10_000.0, "interleaved")), "layout half"),
        (Rotary(spec.RotarySpec(8, 8, 1e4), rotated=RotatedHeads((0,), (0,))), "different heads"),
    ],
)
def test_what_no_rotation_can_do_is_refused(other: Rotary, named: str) -> None:
    with pytest.raises(ScheduleError, match=named):
        rerotate(keys(), Rotary(spec.RotarySpec(8, 8, 10_000.0)), other, IDS)


def test_ids_that_are_not_the_keys_are_refused() -> None:
    rope = Rotary(spec.RotarySpec(8, 8, 10_000.0))
    with pytest.raises(PositionError, match="now_position_ids has shape"):
        rerotate(keys(), rope, rope, IDS, IDS[:, :4])
