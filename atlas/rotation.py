"""The rotation behind a query: which channels, in which layout, by which angles per position."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

MOVED = 2e-6
"""A channel has moved where it differs by more than this share of the largest channel."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """Rotated channels `start` to `start + width`, `layout`, and radians per position per pair.

    `left` is what the rotation does not explain of the query, relative to its largest channel.
    `grown` multiplies the whole query, for each position.
    """

    start: int
    width: int
    layout: str
    inv_freq: tuple[float, ...]
    left: float
    grown: tuple[float, ...] = ()


def solve(x: Tensor, position_ids: list[int]) -> Rotated | None:
    """The rotation of `x` (heads, positions, channels) over these positions; None where none is.

    The first position is 0; width 0 where the query only grows. Raises ValueError where
    what differs is no rotation of pairs.
    """
    largest = float(x.abs().max())
    grown = (x.norm(dim=-1) / x[:, :1].norm(dim=-1)).mean(0)
    if bool(((grown - 1).abs() > 1e-4).any()):
        # The whole query may be multiplied by a factor that goes by the position.
        even = solve(x / grown[None, :, None], position_ids)
        bare = Rotated(0, 0, "", (), 0.0)
        return replace(even or bare, grown=tuple(grown.tolist()))
    moved = ((x - x[:, :1]).abs().amax(dim=(0, 1)) > MOVED * largest).nonzero().flatten().tolist()
    if not moved:
        return None
    found = [
        _fit(x, position_ids, start, width, layout, largest)
        for start, width in _spans(moved, x.shape[-1])
        for layout in ("half", "interleaved")
    ]
    best = min(found, key=lambda each: (round(each.left, 4), each.width))
    if best.left > 2e-3:
        raise ValueError(f"channels {moved[0]} to {moved[-1]} differ by no rotation of pairs")
    return best


def layout_before(rotated: Rotated, at_start: Tensor, before: list[Tensor]) -> str:
    """The layout in the order of the weights.

    Some models deal the channels anew before they rotate. `at_start` is a head of the query at
    position 0, which is not rotated; `before` what the modules before it put out there.
    """
    values = at_start[rotated.start : rotated.start + rotated.width]
    for output in reversed(before):
        order = _places(values, output)
        if order is None:
            continue
        pairs = rotated.width // 2
        first, second = (
            (order[:pairs], order[pairs:])
            if rotated.layout == "half"
            else (order[0::2], order[1::2])
        )
        if all(b == a + 1 for a, b in zip(first, second, strict=True)):
            return "interleaved"
        if all(b == a + pairs for a, b in zip(first, second, strict=True)):
            return "half"
    return rotated.layout


def _places(values: Tensor, output: Tensor) -> list[int] | None:
    """Where each value stands in an output; None where one does not, or two at one place."""
    if len(output) < len(values):
        return None
    ordered, places = output.sort()
    at = torch.searchsorted(ordered, values).clamp(1, len(ordered) - 1)
    nearer = torch.where(
        (ordered[at] - values).abs() < (ordered[at - 1] - values).abs(), at, at - 1
    )
    if bool((ordered[nearer] - values).abs().gt(1e-6 * values.abs().max()).any()):
        return None
    found: list[int] = places[nearer].tolist()
    return found if len(set(found)) == len(found) else None


def _spans(moved: list[int], channels: int) -> list[tuple[int, int]]:
    """Where rotated channels may lie: what moved, the whole head, its beginning or its end."""
    first, last = moved[0], moved[-1] + 1
    spans = {(first, last - first), (0, channels), (0, last), (first, channels - first)}
    # Pairs that stand still within (a share of the pairs, not of the head).
    return sorted((start, width) for start, width in spans if width % 2 == 0)


def _fit(
    x: Tensor, position_ids: list[int], start: int, width: int, layout: str, largest: float
) -> Rotated:
    part = x[..., start : start + width]
    if layout == "half":
        a, b = part[..., : width // 2], part[..., width // 2 :]
    else:
        a, b = part[..., 0::2], part[..., 1::2]
    z = torch.complex(a, b)
    # Over heads, (positions, pairs).
    products = (z * z[:, :1].conj()).sum(0)
    inv_freq = torch.zeros(z.shape[-1], dtype=torch.float64)
    for position, there in list(zip(position_ids, products, strict=True))[1:]:
        guess = inv_freq * position
        # What fp32 leaves of an angle grows with it; a nearer position has said more.
        off = (there * torch.polar(torch.ones_like(guess), -guess)).angle()
        inv_freq = torch.where(off.abs() < 1.6, inv_freq + off / position, inv_freq)
    angles = torch.tensor(position_ids, dtype=torch.float64)[:, None] * inv_freq
    wanted = z[:, :1] * torch.polar(torch.ones_like(angles), angles)
    left = float((z - wanted).abs().max()) / largest
    if not _all_else_still(x, start, width, largest):
        left = max(left, 1.0)
    return Rotated(start, width, layout, tuple(inv_freq.tolist()), left)


def _all_else_still(x: Tensor, start: int, width: int, largest: float) -> bool:
    apart = (x - x[:, :1]).abs().amax(dim=(0, 1)) > MOVED * largest
    apart[start : start + width] = False
    return not bool(apart.any())
