"""Llama 3.1's published rule."""

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
class Llama3(Rescaling):
    """Divide long wavelengths, keep short ones, blend between (Llama 3.1's published rule).

    `original_max_position_embeddings` is the reference length of the formula, and not a statement
    of how long the last training documents were. Strict or inclusive comparison of the bands
    cannot matter: the rule is continuous.
    """

    kind: ClassVar[str] = "llama3"
    spelled: ClassVar[SpelledAs] = SpelledAs(
        hf5="llama3",
        hf4="llama3",
        hf_keys=frozenset(
            {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}
        ),
        method="llama3",
    )
    origin: ClassVar[OriginWords] = OriginWords(
        "llama3",
        "llama3 rule: slow pairs divided by {factor:g}, reference length "
        "{original_max_position_embeddings}",
        "Whether the model was trained with it is not in the file.",
    )

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        """Refuse a factor below 1, a missing length, and bands that cross."""
        checks.stretch("the llama3 scaling factor", self.factor)
        checks.length("the llama3 original_max_position_embeddings",
                      self.original_max_position_embeddings, remedy=TRAINED)  # fmt: skip
        check_rising("llama3", ("low_freq_factor", self.low_freq_factor),
                     ("high_freq_factor", self.high_freq_factor),
                     "Llama 3.1 has 1 and 4")  # fmt: skip

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """Pairs by their rotations within the reference length."""
        low, high, tokens = (
            self.low_freq_factor, self.high_freq_factor, self.original_max_position_embeddings,
        )  # fmt: skip
        before = plain(rotary)
        keep = [kept_share(tokens * f / (2.0 * math.pi), low, high) for f in before]
        kept, divided = sum(k >= 1.0 for k in keep), sum(k <= 0.0 for k in keep)
        rule = (
            f"{kept} pairs kept, {len(keep) - kept - divided} blended, {divided} divided by "
            f"{self.factor:g}"
        )
        return blend(before, self.factor, keep), (rule,)

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> Llama3:
        """By a factor from the trained length, with Llama 3.1's own bands of 1 and 4."""
        return cls(number, 1.0, 4.0, needed(trained, claimed, cls.kind))
