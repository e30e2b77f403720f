"""Position interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ropewalk.rope import checks
from ropewalk.rope.schedules.rescaling import (
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    plain,
)
from ropewalk.short import short

INTERPOLATION = OriginWords(
    "position-interpolation",
    "Position interpolation by {factor:g}",
    "The file does not say whether training followed; without it, interpolation usually loses "
    "much.",
)


@short
@dataclass(frozen=True, slots=True)
class Linear(Rescaling):
    """Position interpolation: every frequency divided by `factor` (2306.15595, section 3.2).

    It alone takes a factor below 1: to squeeze positions is well defined, and engines do it when
    told to.
    """

    kind: ClassVar[str] = "linear"
    spelled: ClassVar[SpelledAs] = SpelledAs(
        hf5="linear",
        hf4="linear",
        hf_keys=frozenset({"factor"}),
        gguf="linear",
        rope="linear",
        method="linear",
    )
    origin: ClassVar[OriginWords] = INTERPOLATION

    factor: float

    def __post_init__(self) -> None:
        """Refuse a factor of 0 or less."""
        remedy = "a factor is the new length over the trained one"
        checks.number("the linear scaling factor", self.factor, least=0.0, above=True,
                      remedy=remedy)  # fmt: skip

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """Every pair over the factor."""
        s = self.factor
        return tuple(f / s for f in plain(rotary)), (f"every pair divided by {s:g}",)

    def told(self, rotary: Rotates | None) -> OriginWords:  # noqa: ARG002
        """A factor of 1 stretches nothing."""
        if self.factor == 1.0:
            return OriginWords("as-trained", "As trained: linear scaling by 1 changes nothing", "")
        return self.origin.filled(self.numbers())

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> Linear:  # noqa: ARG003
        """By a factor, whatever the lengths."""
        return cls(number)
