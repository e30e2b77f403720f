"""NTK by parts, as YaRN's paper has it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ropewalk.rope import checks
from ropewalk.rope.schedules.rescaling import (
    TRAINED,
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    blend,
    check_rising,
    kept_share,
    needed,
    plain,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class NtkByParts(Rescaling):
    """YaRN's frequencies as its paper has them: a ramp linear in rotations (2309.00071, 3.2).

    A pair that makes r full rotations in `original_max_position_embeddings` tokens keeps the share
    clip((r - beta_slow) / (beta_fast - beta_slow), 0, 1) of its frequency, and the rest is divided
    by `factor`; the paper calls the two alpha and beta. Every implementation called "yarn" runs
    its ramp over the pair index instead, which is `Yarn`: same ends, other numbers between. No
    amplitude. Files hold it as llama3 with these two ends.
    """

    kind: ClassVar[str] = "ntk by parts"
    spelled: ClassVar[SpelledAs] = SpelledAs(method="ntk-by-parts")
    origin: ClassVar[OriginWords] = OriginWords(
        "ntk-by-parts",
        "NTK by parts (factor {factor:g} from {original_max_position_embeddings} tokens), as "
        "YaRN's paper has it",
        "Nothing says whether the model was trained with it.",
    )

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a factor below 1, a missing length, and ends that do not rise."""
        checks.stretch("the by-parts scaling factor", self.factor)
        checks.length("the by-parts original_max_position_embeddings",
                      self.original_max_position_embeddings, remedy=TRAINED)  # fmt: skip
        check_rising("by-parts", ("beta_slow", self.beta_slow), ("beta_fast", self.beta_fast),
                     "the paper has 1 and 32")  # fmt: skip

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """The paper's ramp over rotations."""
        low, high, tokens = self.beta_slow, self.beta_fast, self.original_max_position_embeddings
        before = plain(rotary)
        keep = [kept_share(tokens * f / (2.0 * math.pi), low, high) for f in before]
        rule = (
            f"ramp over rotations in {tokens} tokens: pairs above {high:g} kept, below {low:g} "
            f"divided by {self.factor:g}"
        )
        return blend(before, self.factor, keep), (rule,)

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> NtkByParts:
        """By a factor from the trained length."""
        return cls(number, needed(trained, claimed, cls.kind))
