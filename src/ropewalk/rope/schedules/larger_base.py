"""Another base, put in the place of the one that a model was trained with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ropewalk.errors import LengthError
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

FULL_CIRCLE = 2.0 * math.pi


@short
@dataclass(frozen=True, slots=True)
class LargerBase(Rescaling):
    """Another base in the place of the encoding's own ("ABF", 2309.16039, section 2).

    A model whose base was raised before training has simply that base; this type is for raising
    it afterwards, where the encoding's own base is what came before.
    """

    kind: ClassVar[str] = "larger base"
    spelled: ClassVar[SpelledAs] = SpelledAs(rope="base", method="base")
    origin: ClassVar[OriginWords] = OriginWords(
        "larger-base",
        "Larger base: raised afterwards",
        "Nothing says whether the model was trained with it.",
    )
    number: ClassVar[str | None] = "THETA"

    rope_theta: float

    def __post_init__(self) -> None:
        """Refuse a base of 1 or less."""
        remedy = "10000 is the usual one, and a longer context takes more"
        checks.number("the larger base", self.rope_theta, least=1.0, above=True, remedy=remedy)

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """The plain frequencies of the larger base."""
        larger = self.rope_theta
        rule = f"base {larger:.10g} in place of {rotary.rope_theta:.10g}"
        return plain_inv_freq(larger, rotary.rotary_dim), (rule,)

    def base(self, rotary: Rotates) -> float:  # noqa: ARG002
        """The larger one."""
        return self.rope_theta

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> LargerBase:  # noqa: ARG003
        """The base itself."""
        return cls(number)

    @classmethod
    def stretch(cls, rotary: Rotates, trained: int, target: int) -> LargerBase:
        """The critical base of the length (2310.05209, section 3)."""
        return cls(critical_base(rotary.rope_theta, trained, target))


def critical_base(base: float, trained: int, target: int) -> float:
    """b^(log_{T/2pi}(target / 2 pi)): the base that tuning at `target` needs (2310.05209, 3).

    Raises LengthError for a target below 1, and when T is within one full circle of the fastest
    pair (6 tokens or fewer).
    """
    if target < 1:
        raise LengthError(f"the target length is {target}; it must be at least 1")
    if trained <= FULL_CIRCLE:
        raise LengthError(
            f"the trained length is {trained}; a critical base needs more than 6 tokens, one "
            "full circle of the fastest pair"
        )
    return float(base ** (math.log(target / FULL_CIRCLE) / math.log(trained / FULL_CIRCLE)))
