"""Divisors as a GGUF file's tensor holds them."""

from __future__ import annotations

import math
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
        found = None if rotary is None else baked_llama3(rotary, self)
        return self.origin if found is None else self.baked.filled(found[0].numbers())


LLAMA3_LENGTH = 8192
"""The reference length of Llama 3's rule, for which converters compute the divisors."""
LLAMA3_TOLERANCE = 1e-4
"""Relative; the tensor is in single precision, and converters sum in it."""


def baked_llama3(rotary: Rotates, scaling: PairDivisors) -> tuple[Llama3, float] | None:
    """The llama3 rule behind stored divisors and the base that they were made for, or None.

    Tried are the published constants (low 1, high 4, reference length 8192) at the base of
    `rotary`, and then the base and the length that the divisors themselves give: a converter that
    found no `rope_theta` computes with 10,000, and a base that was changed afterwards leaves the
    divisors as they were. The factor is the largest divisor.
    """
    factor = round(max(scaling.divisors), 3)
    if len(scaling.divisors) != rotary.pairs or not 1.0 < factor <= checks.MOST:
        return None
    solved = _base_and_length(scaling.divisors, factor)
    tries = [(rotary.rope_theta, LLAMA3_LENGTH)]
    if solved is not None:
        base, length = float(f"{solved[0]:.4g}"), round(solved[1])
        tries += [(rotary.rope_theta, length), (base, LLAMA3_LENGTH), (base, length)]
    for base, length in tries:
        if base > 1.0 and length >= 1:
            rule = Llama3(float(factor), 1.0, 4.0, length)
            if _makes(rule, base, scaling.divisors):
                return rule, base
    return None


def _base_and_length(divisors: tuple[float, ...], factor: float) -> tuple[float, float] | None:
    """The base and the reference length by two pairs between the rule's ends, None without two.

    Between them 1/d = (1 - t)/f + t with t = (L/wavelength - 1)/3, so each gives L/wavelength,
    and two of them the base; the fastest and the slowest such pair are taken.
    """
    between = [(i, d) for i, d in enumerate(divisors) if 1.0 + 1e-3 < d < factor * (1.0 - 1e-3)]
    if len(between) < 2:
        return None
    (i, first), (j, last) = between[0], between[-1]
    turns = [1.0 + 3.0 * (1.0 / d - 1.0 / factor) / (1.0 - 1.0 / factor) for d in (first, last)]
    base = (turns[0] / turns[1]) ** (len(divisors) / (j - i))
    return base, turns[0] * 2.0 * math.pi * base ** (i / len(divisors))


@dataclass(frozen=True, slots=True)
class _Whole:
    """Heads that rotate whole, at a base: what the rule's formula needs of an encoding."""

    rope_theta: float
    rotary_dim: int

    @property
    def head_dim(self) -> int:
        """All of it."""
        return self.rotary_dim

    @property
    def pairs(self) -> int:
        """Half of that."""
        return self.rotary_dim // 2


def _makes(rule: Llama3, base: float, divisors: tuple[float, ...]) -> bool:
    """Whether the rule at this base gives these divisors."""
    rotary = _Whole(base, 2 * len(divisors))
    made = zip(plain(rotary), rule.rescaled(rotary, None)[0], divisors, strict=True)
    return all(abs(p / f - d) <= LLAMA3_TOLERANCE * p / f for p, f, d in made)
