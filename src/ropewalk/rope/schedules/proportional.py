"""p-RoPE, as Gemma 4 has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ropewalk.errors import ScheduleError
from ropewalk.rope import checks
from ropewalk.rope.schedules.linear import INTERPOLATION
from ropewalk.rope.schedules.rescaling import (
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    plain,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Proportional(Rescaling):
    """Only the fastest pairs rotate, this share of them, and the rest stands still (2410.06205).

    As Gemma 4 has it: int(partial_rotary_factor * head_dim // 2) pairs live with the exponents of
    the whole head, the other frequencies are exactly 0, and `factor` divides those that live. A
    partial rotary encoding is another function: its exponents are spread over the channels that
    rotate.
    """

    kind: ClassVar[str] = "proportional"
    spelled: ClassVar[SpelledAs] = SpelledAs(hf5="proportional", hf_keys=frozenset({"factor"}))
    origin: ClassVar[OriginWords] = INTERPOLATION

    partial_rotary_factor: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a share outside (0, 1] and a factor below 1."""
        share, what = self.partial_rotary_factor, "the proportional partial_rotary_factor"
        remedy = "the share of the pairs that rotate is above 0 and at most 1"
        checks.number(what, share, least=0.0, above=True, remedy=remedy)
        if share > 1.0:
            raise ScheduleError(f"{what} is {share}; {remedy}")
        checks.stretch("the proportional scaling factor", self.factor)

    @property
    def stretches(self) -> bool:
        """By a factor above 1; the share of the pairs alone is the architecture."""
        return self.factor != 1.0

    def check_fits(self, rotary: Rotates) -> None:
        """It is defined on whole heads."""
        if rotary.rotary_dim != rotary.head_dim:
            raise ScheduleError(
                f"rotary_dim is {rotary.rotary_dim} with head_dim {rotary.head_dim} under "
                "proportional scaling, which is defined on whole heads: set rotary_dim to "
                "head_dim, and the share says how many pairs rotate"
            )

    def live_pairs(self, head_dim: int) -> int:
        """How many pairs rotate: int(partial_rotary_factor * head_dim // 2), as Gemma 4 counts."""
        return int(self.partial_rotary_factor * head_dim // 2)

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """The fastest pairs over `factor`, and zero for those that stand still."""
        before, live = plain(rotary), self.live_pairs(rotary.head_dim)
        rule = f"the first {live} of {len(before)} pairs rotate, the others stand still"
        if self.factor != 1.0:
            rule += f"; every pair divided by {self.factor:g}"
        rotating = tuple(f / self.factor for f in before[:live])
        return rotating + (0.0,) * (len(before) - live), (rule,)

    def in_training(self, stretched: bool) -> Proportional:
        """The pairs that rotate, without the factor; that share is the architecture."""
        return replace(self, factor=1.0) if stretched else self
