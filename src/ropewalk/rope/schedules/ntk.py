"""NTK-aware scaling by a fixed factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ropewalk.errors import ScheduleError
from ropewalk.rope import checks
from ropewalk.rope.schedules.rescaling import (
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    plain_inv_freq,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Ntk(Rescaling):
    """A larger base, chosen so that the slowest pair is divided by exactly `factor`.

    Source: the "NTK-aware scaled RoPE" proposal, written down in YaRN (2309.00071), section 3.1.
    Files hold it as a larger base, and Hunyuan's as `alpha` beside the type dynamic.
    """

    kind: ClassVar[str] = "ntk"
    spelled: ClassVar[SpelledAs] = SpelledAs(rope="ntk", method="ntk")
    origin: ClassVar[OriginWords] = OriginWords(
        "ntk",
        "NTK-aware base, the slowest pair divided by {factor:g}",
        "Nothing says whether the model was trained with it.",
    )

    factor: float

    def __post_init__(self) -> None:
        """Refuse a factor below 1."""
        checks.stretch("the ntk scaling factor", self.factor)

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """The plain frequencies of the larger base."""
        larger = self.base(rotary)
        rule = (
            f"base raised to {larger:.8g}, so that the slowest pair is divided by {self.factor:g}"
        )
        return plain_inv_freq(larger, rotary.rotary_dim), (rule,)

    def base(self, rotary: Rotates) -> float:
        """The larger one."""
        return ntk_base(rotary.rope_theta, rotary.rotary_dim, self.factor)

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> Ntk:  # noqa: ARG003
        """By a factor, whatever the lengths."""
        return cls(number)


def ntk_base(base: float, rotary_dim: int, factor: float) -> float:
    """base * factor^(d/(d-2)): the last pair is divided by exactly `factor` (2309.00071, 3.1)."""
    if rotary_dim <= 2:
        raise ScheduleError(
            f"NTK-aware scaling needs a rotary dimension above 2, got {rotary_dim}: "
            "with one pair there is no slowest pair to stretch; use linear instead"
        )
    return base * float(factor ** (rotary_dim / (rotary_dim - 2)))
