"""Divisors as a GGUF file's tensor holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ropewalk.rope import checks
from ropewalk.rope.schedules.llama3 import Llama3
from ropewalk.rope.schedules.rescaling import (
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    divide,
    plain,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class PairDivisors(Rescaling):
    """A divisor for every pair at every length, as the GGUF tensor `rope_freqs.weight` has it.

    llama.cpp's converter bakes the llama3 rule into such a tensor; the rule's own parameters
    are then gone from the file.
    """

    kind: ClassVar[str] = "pair divisors"
    spelled: ClassVar[SpelledAs] = SpelledAs()
    origin: ClassVar[OriginWords] = OriginWords(
        "pair-divisors",
        "A divisor for each pair, stored as a tensor",
        "The file does not say which rule made it or what training followed.",
    )
    baked: ClassVar[OriginWords] = OriginWords(
        "llama3",
        "llama3 rule: the file's divisors are those of factor {factor:g} at reference length "
        "{original_max_position_embeddings}; the rule's own numbers are not in the file",
        "",
    )
    alone: ClassVar[str] = (
        "already holds the whole rule of each pair, of which only the result is known"
    )

    divisors: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse anything but positive numbers; their count is checked against the encoding."""
        checks.divisors("rope_freqs", self.divisors)

    def check_fits(self, rotary: Rotates) -> None:
        """One divisor for each pair."""
        checks.one_a_pair("rope_freqs", self.divisors, rotary.pairs)

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """Each pair over its divisor."""
        rule = f"a divisor for each pair, from {min(self.divisors):g} to {max(self.divisors):g}"
        return divide(plain(rotary), self.divisors), (rule,)

    def told(self, rotary: Rotates | None) -> OriginWords:
        """Llama 3's rule where the divisors are that."""
        rule = None if rotary is None else baked_llama3(rotary, self)
        return self.origin if rule is None else self.baked.filled(rule.numbers())


def baked_llama3(rotary: Rotates, scaling: PairDivisors) -> Llama3 | None:
    """The llama3 rule behind stored divisors, when the published constants reproduce them.

    Constants: low 1, high 4, reference length 8192; the factor is the last divisor. Divisors
    are stored in fp32, so they agree to a relative 1e-4 at most.
    """
    if len(scaling.divisors) != rotary.pairs or not 1.0 < scaling.divisors[-1] <= checks.MOST:
        return None
    rule = Llama3(float(round(scaling.divisors[-1], 3)), 1.0, 4.0, 8192)
    made = zip(plain(rotary), rule.rescaled(rotary, None)[0], scaling.divisors, strict=True)
    return rule if all(abs(p / f - d) <= 1e-4 * d for p, f, d in made) else None
