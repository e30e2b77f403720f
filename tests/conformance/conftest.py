"""The exact values that both sides are held against: the published formulas in 50 digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import mpmath
import pytest

DIGITS = 50

SAID = pytest.StashKey[list[str]]()
"""Lines that a run ends with."""

Exact = Callable[..., list[float]]


@pytest.fixture
def say_at_the_end(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """say_at_the_end(line): the figure that a run is for, shown without any option."""
    return request.config.stash.setdefault(SAID, []).append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show what was said, after all tests."""
    for line in config.stash.get(SAID, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def exact() -> Exact:
    """exact(rope, pairs, head_dim, claimed, length): inverse frequencies, rounded once to fp64.

    `rope` is a rope dictionary in version 5 spelling with everything filled in; `pairs` how many
    there are; `claimed` is max_position_embeddings, where dynamic scaling starts; `length` the
    tokens of the sequence, None for a short one.
    """

    def compute(
        rope: Mapping[str, Any], pairs: int, head_dim: int, claimed: int, length: int | None = None
    ) -> list[float]:
        frozen = tuple(
            sorted(
                (key, tuple(value) if isinstance(value, list) else value)
                for key, value in rope.items()
                if not isinstance(value, Mapping)
            )
        )
        return list(_exact(frozen, pairs, head_dim, claimed, length))

    return compute


@cache
def _exact(
    frozen: tuple[tuple[str, Any], ...], pairs: int, head_dim: int, claimed: int, length: int | None
) -> tuple[float, ...]:
    rope = dict(frozen)
    base, dim = mpmath.mpf(rope["rope_theta"]), 2 * pairs
    with mpmath.workdps(DIGITS):
        plain = [base ** (-mpmath.mpf(2 * i) / dim) for i in range(pairs)]
        match rope.get("rope_type", "default"):
            case "default":
                values = plain
            case "linear":
                values = [f / rope["factor"] for f in plain]
            case "proportional":
                live = int(rope.get("partial_rotary_factor", 1.0) * head_dim // 2)
                turning = [f / mpmath.mpf(rope.get("factor", 1.0)) for f in plain[:live]]
                values = turning + [mpmath.mpf(0)] * (pairs - live)
            case "dynamic":
                s, run = mpmath.mpf(rope["factor"]), max(length or 0, claimed)
                larger = base * (s * run / claimed - (s - 1)) ** (mpmath.mpf(dim) / (dim - 2))
                values = [larger ** (-mpmath.mpf(2 * i) / dim) for i in range(pairs)]
            case "yarn":
                values = _yarn(rope, base, plain)
            case "llama3":
                values = [_llama3(rope, f) for f in plain]
            case "longrope":
                long = length is not None and length > rope["original_max_position_embeddings"]
                divisors = rope["long_factor" if long else "short_factor"]
                values = [f / mpmath.mpf(d) for f, d in zip(plain, divisors, strict=True)]
            case other:
                raise AssertionError(f"no formula here for {other!r}")
        return tuple(float(value) for value in values)


def _yarn(rope: Mapping[str, Any], base: Any, plain: list[Any]) -> list[Any]:
    """YaRN's ramp over the pair index (2309.00071, its published code)."""
    trained, dim = rope["original_max_position_embeddings"], 2 * len(plain)

    def index(turns: float) -> Any:
        return dim * mpmath.log(trained / (turns * 2 * mpmath.pi)) / (2 * mpmath.log(base))

    low, high = index(rope.get("beta_fast") or 32), index(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += mpmath.mpf("0.001")
    values = []
    for i, f in enumerate(plain):
        ramp = min(max((i - low) / (high - low), 0), 1)
        values.append(f / mpmath.mpf(rope["factor"]) * ramp + f * (1 - ramp))
    return values


def _llama3(rope: Mapping[str, Any], f: Any) -> Any:
    """Llama 3.1's rule: long wavelengths divided, short ones kept, a blend between."""
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] * f / (2 * mpmath.pi)
    if turns < low:
        return f / rope["factor"]
    if turns > high:
        return f
    kept = (turns - low) / (mpmath.mpf(high) - low)
    return (1 - kept) * f / rope["factor"] + kept * f


@pytest.fixture(scope="session")
def exact_amplitude() -> Callable[..., float]:
    """exact_amplitude(rope, claimed): what multiplies cos and sin, rounded once to fp64."""

    def compute(rope: Mapping[str, Any], claimed: int) -> float:
        kind = rope.get("rope_type", "default")
        if kind not in ("yarn", "longrope"):
            return 1.0
        if rope.get("attention_factor") is not None:
            return float(rope["attention_factor"])
        original = rope["original_max_position_embeddings"]
        s = rope.get("factor") or claimed / original
        if s <= 1:
            return 1.0
        with mpmath.workdps(DIGITS):
            if kind == "longrope":
                return float(mpmath.sqrt(1 + mpmath.log(s) / mpmath.log(original)))
            mscale, all_dim = rope.get("mscale"), rope.get("mscale_all_dim")
            over = mpmath.mpf("0.1") * mpmath.log(s)
            if mscale and all_dim:
                return float((over * mscale + 1) / (over * all_dim + 1))
            return float(over + 1)

    return compute
