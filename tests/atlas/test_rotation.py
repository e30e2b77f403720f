"""The solver of rotations finds what was rotated, whatever the channels, layout and base."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from atlas.order import dealt
from atlas.rotation import layout_before, solve

POSITIONS = [0, 1, 17, 100, 1000, 4000]


def rotated(
    x: Tensor, start: int, width: int, layout: str, base: float, scale: float = 1.0
) -> Tensor:
    """The paper's loop, pair by pair: x is (heads, channels), the same at every position."""
    out = x[:, None].repeat(1, len(POSITIONS), 1)
    for i in range(width // 2):
        a, b = (
            (start + i, start + i + width // 2)
            if layout == "half"
            else (start + 2 * i, start + 2 * i + 1)
        )
        for at, position in enumerate(POSITIONS):
            angle = position * base ** (-2 * i / width)
            cos, sin = math.cos(angle), math.sin(angle)
            first, second = x[:, a].clone(), x[:, b].clone()
            out[:, at, a] = scale * (first * cos - second * sin)
            out[:, at, b] = scale * (first * sin + second * cos)
    return out


def drawn(heads: int, channels: int, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(heads, channels, generator=made, dtype=torch.float64)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("base", [1e4, 5e5, 1e7])
@pytest.mark.parametrize(("channels", "start", "width"), [(64, 0, 64), (64, 0, 32), (96, 64, 32)])
def test_what_was_rotated_is_found(
    layout: str, base: float, channels: int, start: int, width: int
) -> None:
    q = rotated(drawn(2, channels), start, width, layout, base).float().double()
    found = solve(q, POSITIONS)
    assert found is not None
    assert (found.start, found.width, found.layout) == (start, width, layout)
    for pair, theirs in enumerate(found.inv_freq):
        assert theirs == pytest.approx(base ** (-2 * pair / width), rel=1e-6, abs=1e-9)


def test_what_does_not_move_is_no_rotation_and_what_moves_otherwise_is_refused() -> None:
    still = drawn(2, 32)[:, None].repeat(1, len(POSITIONS), 1)
    assert solve(still, POSITIONS) is None
    learned = still + torch.randn(1, len(POSITIONS), 32, generator=torch.Generator().manual_seed(1))
    learned[:, 0] = still[:, 0]
    with pytest.raises(ValueError, match="differ by no rotation"):
        solve(learned, POSITIONS)


def test_channels_that_were_dealt_anew_are_told_in_the_order_of_the_weights() -> None:
    projected = drawn(1, 32)[0]
    # As DeepSeek's code deals interleaved pairs into halves before it rotates.
    dealt_anew = torch.cat([projected[0::2], projected[1::2]])
    q = rotated(dealt_anew[None], 0, 32, "half", 1e4)
    found = solve(q, POSITIONS)
    assert found is not None
    assert layout_before(found, q[0, 0], [projected]) == "interleaved"
    assert layout_before(found, q[0, 0], [dealt_anew]) == "half"


@pytest.mark.parametrize(
    ("period", "first", "end"), [(2, False, False), (6, False, True), (4, True, False)]
)
def test_a_rule_of_layers_is_found_from_what_it_deals(period: int, first: bool, end: bool) -> None:
    at = 0 if first else period - 1
    words = {
        count: [
            "full" if i % period == at or (end and i == count - 1) else "sliding"
            for i in range(count)
        ]
        for count in range(8, 26)
    }
    found = dealt(words)
    assert found is not None
    assert (found["period"], found["first"], found["to_the_end"]) == (period, first, end)
    assert (found["rare"], found["common"]) in (("full", "sliding"), ("sliding", "full"))
    assert dealt({8: ["a", "b", "c"] * 2 + ["a", "b"]}) is None
