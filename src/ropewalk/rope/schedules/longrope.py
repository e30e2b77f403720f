"""LongRoPE: a divisor for every pair, by two lists."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from ropewalk.errors import LengthError, ScheduleError
from ropewalk.rope import checks
from ropewalk.rope.schedules.rescaling import (
    TRAINED,
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    check_amplitude,
    divide,
    plain,
)
from ropewalk.short import short

SEARCHED = OriginWords(
    "searched-divisors", "A divisor for each pair, found by a search", "No training is implied."
)
"""Of two equal lists that `ropewalk extend --method search` found, by its record in the file."""


@short
@dataclass(frozen=True, slots=True)
class LongRope(Rescaling):
    """A divisor for every pair, one list up to the original length and one beyond (2402.13753).

    The short list serves lengths up to and including `original_max_position_embeddings`. `factor`
    enters only the amplitude sqrt(1 + ln factor / ln of that length), which applies in both modes;
    `attention_factor` replaces it when given.
    """

    kind: ClassVar[str] = "longrope"
    spelled: ClassVar[SpelledAs] = SpelledAs(
        hf5="longrope",
        hf4="longrope",
        hf_aliases=("su",),
        hf_keys=frozenset(
            {"factor", "original_max_position_embeddings", "attention_factor"}
            | {"short_factor", "long_factor"}
        ),
        gguf="longrope",
        method="longrope",
    )
    origin: ClassVar[OriginWords] = OriginWords(
        "longrope",
        "longrope: a divisor for each pair, long ones past {original_max_position_embeddings} "
        "tokens",
        "The file does not say how much training followed.",
    )
    fixed: ClassVar[OriginWords] = OriginWords(
        "longrope",
        "longrope with equal short and long factors: a fixed rescaling of each pair at every "
        "length, not an extension by itself",
        "",
    )

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    factor: float
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        """Refuse lists that do not pair up, a switch that is no length, a factor below 1."""
        checks.divisors("longrope short_factor", self.short_factor)
        checks.divisors("longrope long_factor", self.long_factor)
        if len(self.short_factor) != len(self.long_factor):
            raise ScheduleError(
                f"longrope short_factor holds {len(self.short_factor)} divisors and long_factor "
                f"{len(self.long_factor)}; both must have one for each rotary pair: check the lists"
            )
        # The amplitude divides by the logarithm of this length.
        checks.length("the longrope original_max_position_embeddings",
                      self.original_max_position_embeddings, least=2, remedy=TRAINED)  # fmt: skip
        checks.stretch("the longrope scaling factor", self.factor)
        check_amplitude("longrope", self.attention_factor)

    @property
    def depends_on_length(self) -> bool:
        """Unless both lists are equal."""
        return self.short_factor != self.long_factor

    def check_fits(self, rotary: Rotates) -> None:
        """One divisor for each pair, in both lists."""
        checks.one_a_pair("longrope short_factor", self.short_factor, rotary.pairs)
        checks.one_a_pair("longrope long_factor", self.long_factor, rotary.pairs)

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:
        """Each pair over its divisor, by the list of this length."""
        switch = self.original_max_position_embeddings
        long = length is not None and length > switch
        rule = f"the {'long' if long else 'short'} factors, " + (
            f"{length} tokens being {'more' if long else 'no more'} than {switch}"
            if length is not None
            else f"as for up to {switch} tokens"
        )
        return divide(plain(rotary), self.long_factor if long else self.short_factor), (rule,)

    def amplitude(self) -> tuple[float, str]:
        """attention_factor, else sqrt(1 + ln s / ln T)."""
        if self.attention_factor is not None:
            return self.attention_factor, "attention_factor as stated"
        s, tokens = self.factor, self.original_max_position_embeddings
        return longrope_amplitude(s, tokens), f"sqrt(1 + ln {s:g} / ln {tokens})"

    def in_training(self, stretched: bool) -> LongRope:  # noqa: ARG002
        """The short factors, at whose length the trained window lies."""
        return replace(self, long_factor=self.short_factor)

    def told(self, rotary: Rotates | None) -> OriginWords:  # noqa: ARG002
        """Equal lists are no extension."""
        words = self.origin if self.depends_on_length else self.fixed
        return words.filled(self.numbers())

    @classmethod
    def stretch(cls, rotary: Rotates, trained: int, target: int) -> LongRope:
        """Nothing up to the trained length, and `critical_factors` beyond."""
        return cls.beyond(critical_factors(rotary, trained, target), trained, target)

    @classmethod
    def beyond(cls, divisors: tuple[float, ...], trained: int, target: int) -> LongRope:
        """These divisors past the trained length, none up to it."""
        return cls((1.0,) * len(divisors), divisors, trained, target / trained)


def longrope_amplitude(factor: float, trained_length: int) -> float:
    """sqrt(1 + ln factor / ln trained_length), and 1 for a factor of 1 or less (2402.13753)."""
    if factor <= 1.0:
        return 1.0
    return math.sqrt(1.0 + math.log(factor) / math.log(trained_length))


def critical_factors(rotary: Rotates, trained: int, target: int) -> tuple[float, ...]:
    """Divisors that grow as NTK's do up to the critical pair, and are s from there on.

    s^(i / c) for pairs i below c = d_extra / 2, the first pair that made no full rotation in
    training, and s for the others: the shape from which LongRoPE2 (2502.20082, section 3) begins
    its search.
    """
    s = target / trained
    critical = critical_dimension(rotary.rotary_dim, rotary.rope_theta, trained) // 2
    return tuple(s ** (i / critical) if i < critical else s for i in range(rotary.pairs))


def critical_dimension(rotary_dim: int, base: float, trained: int) -> int:
    """d_extra = 2 ceil((d/2) log_b(T / 2 pi)) within [0, d] (2310.05209, section 3).

    Channels below it made at least one full rotation in training. LongRoPE2 finds the limit in
    practice lower, so it is an upper estimate.
    """
    if trained < 1:
        raise LengthError(f"the trained length is {trained}; it must be at least 1")
    pairs = math.ceil(rotary_dim / 2 * math.log(trained / (2.0 * math.pi)) / math.log(base))
    return min(max(2 * pairs, 0), rotary_dim)
