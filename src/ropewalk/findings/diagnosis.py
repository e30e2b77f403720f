"""Why a live rotary table is not the configured one: the known ways in which tables go wrong.

Each cause is one function that answers with a sentence when it explains the table, and with ""
when it does not. They are asked in the order of `CAUSES`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ropewalk.rope.frequencies import scaled_inv_freq
from ropewalk.rope.schedules import LongRope, Unscaled, plain_inv_freq
from ropewalk.rope.spec import RotarySpec
from ropewalk.short import short

SAME = 1e-5
"""Relative difference within which two tables are the same; fp32 stays within about 1e-6."""

LIBRARY_BASE = 10_000.0
"""The base that loaders fall back to when they do not find the configured one."""


@short
@dataclass(frozen=True, slots=True)
class Case:
    """A live table and what it should be, radians per token; `where` names it for sentences."""

    where: str
    live: tuple[float, ...]
    rotary: RotarySpec
    expected: tuple[float, ...]
    length: int | None


def differences(live: Sequence[float], expected: Sequence[float]) -> list[float]:
    """Relative differences, pair by pair; infinite for wrong sizes and values no table can hold."""
    if len(live) != len(expected):
        return [math.inf] * max(len(live), len(expected))
    return [_relative(a, b) for a, b in zip(live, expected, strict=True)]


def explain(case: Case) -> tuple[str, str]:
    """The likeliest cause as a stable code and a sentence; "different" when none is known."""
    for code, cause in CAUSES:
        sentence = cause(case)
        if sentence:
            return code, sentence
    first = next(i for i, d in enumerate(differences(case.live, case.expected)) if not d <= SAME)
    return "different", (
        f"{case.where} differs from the configured schedule from pair {first} on: load the model "
        "again from its configuration, or install the schedule."
    )


def _shape(case: Case) -> str:
    if len(case.live) == len(case.expected):
        return ""
    return (
        f"{case.where} holds {len(case.live)} pairs where the configuration rotates "
        f"{len(case.expected)}: check head_dim and partial_rotary_factor."
    )


def _half_precision(case: Case) -> str:
    """The right table rounded to 16 bits, whatever its dtype is now."""
    import torch

    right = torch.tensor(case.expected, dtype=torch.float64)
    now = torch.tensor(case.live, dtype=torch.float64)
    for half in (torch.float16, torch.bfloat16):
        limits = torch.finfo(half)
        # A unit in the last place of room: the table was rounded to fp32 before. Below the
        # smallest normal number the unit stays fixed.
        room = torch.clamp(right, min=limits.smallest_normal) * limits.eps
        if torch.equal(now.to(half).double(), now) and bool(((now - right).abs() <= room).all()):
            name = str(half).removeprefix("torch.")
            return (
                f"{case.where} was cast to {name} and has lost precision, so far tokens are "
                "rotated by wrong angles: rebuild it in float32 after the cast."
            )
    return ""


def _unscaled(case: Case) -> str:
    scaling = case.rotary.scaling
    plain = plain_inv_freq(case.rotary.rope_theta, case.rotary.rotary_dim)
    if isinstance(scaling, Unscaled) or not _close(case.live, plain):
        return ""
    return (
        f"{case.where} is plain rotary at base {case.rotary.rope_theta:,.10g}, although "
        f"{scaling.name} scaling is configured: it was set after loading, where it does "
        "nothing, or the loader dropped it (transformers does, for a GGUF). Set it before "
        "loading, or install the schedule."
    )


def _default_base(case: Case) -> str:
    plain = plain_inv_freq(LIBRARY_BASE, case.rotary.rotary_dim)
    if case.rotary.rope_theta == LIBRARY_BASE or not _close(case.live, plain):
        return ""
    return (
        f"{case.where} is plain rotary at base 10,000, although {case.rotary.rope_theta:,.10g} is "
        "configured: the loader did not find the base. Look under which key it reads it."
    )


def _other_mode(case: Case) -> str:
    scaling = case.rotary.scaling
    if not isinstance(scaling, LongRope):
        return ""
    for length, mode in (
        (scaling.original_max_position_embeddings, "short"),
        (scaling.original_max_position_embeddings + 1, "long"),
    ):
        if _close(case.live, scaled_inv_freq(case.rotary, length)):
            return (
                f"{case.where} holds the {mode} factors, which are not those for this length; the "
                f"switch is at {scaling.original_max_position_embeddings} tokens."
            )
    return ""


def _interpolated(case: Case) -> str:
    """Every pair divided by one and the same number: position interpolation."""
    if not all(f > 0.0 for f in (*case.live, *case.expected)):
        return ""
    by = case.expected[0] / case.live[0]
    if len(case.live) < 2 or not _close([f * by for f in case.live], case.expected):
        return ""
    return (
        f"{case.where} is the configured schedule with every pair divided by {by:.6g}: linear "
        "scaling was applied that the configuration does not state."
    )


def _uninitialised(case: Case) -> str:
    """Values that no schedule gives: memory that was never written."""
    possible = all(math.isfinite(f) and 0.0 <= f <= 1.0 + SAME for f in case.live)
    falling = all(b <= a for a, b in itertools.pairwise(case.live))
    constant = len(case.live) > 1 and case.live[0] == case.live[-1]
    if possible and falling and not constant:
        return ""
    return (
        f"{case.where} holds values that no schedule gives, such as memory that was never written "
        "after a load on the meta device: rebuild the table from the configuration."
    )


CAUSES: tuple[tuple[str, Callable[[Case], str]], ...] = (
    ("shape", _shape),
    ("half-precision", _half_precision),
    ("unscaled", _unscaled),
    ("default-base", _default_base),
    ("other-mode", _other_mode),
    ("uninitialised", _uninitialised),
    ("interpolated", _interpolated),
)


def _relative(live: float, expected: float) -> float:
    if not math.isfinite(live):
        return math.inf
    if expected == 0.0:
        return 0.0 if live == 0.0 else math.inf
    return abs(live - expected) / expected


def _close(live: Sequence[float], other: Sequence[float]) -> bool:
    return max(differences(live, other), default=math.inf) <= SAME
