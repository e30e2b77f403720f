"""YaRN as its authors' code and every engine have it: a ramp over the pair index."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ropewalk.errors import ScheduleError
from ropewalk.rope import checks
from ropewalk.rope.schedules.rescaling import (
    TRAINED,
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
    blend,
    check_amplitude,
    check_rising,
    needed,
    plain,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Yarn(Rescaling):
    """NTK by parts with a ramp over the pair index, and an amplitude (2309.00071, 3.2 and 3.4).

    `attention_factor` replaces the amplitude rule when given. `mscale` and `mscale_all_dim`
    count only as a pair, both non-zero, as in transformers. `truncate` rounds the ends of the
    ramp outwards to whole pairs. They are computed from `original_max_position_embeddings`, the
    trained length.
    """

    kind: ClassVar[str] = "yarn"
    spelled: ClassVar[SpelledAs] = SpelledAs(
        hf5="yarn",
        hf4="yarn",
        hf_keys=frozenset(
            {"factor", "original_max_position_embeddings", "attention_factor"}
            | {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}
        ),
        gguf="yarn",
        rope="yarn",
        method="yarn",
    )
    origin: ClassVar[OriginWords] = OriginWords(
        "yarn", "YaRN (factor {factor:g} from {original_max_position_embeddings} tokens)"
    )

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        """Refuse a factor below 1, a missing length, impossible betas and amplitudes."""
        checks.stretch("the yarn scaling factor", self.factor)
        checks.length("the yarn original_max_position_embeddings",
                      self.original_max_position_embeddings, remedy=TRAINED)  # fmt: skip
        check_rising("yarn", ("beta_slow", self.beta_slow), ("beta_fast", self.beta_fast),
                     "the paper has 1 and 32")  # fmt: skip
        check_amplitude("yarn", self.attention_factor)
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                checks.number(f"the yarn {name}", getattr(self, name), least=0.0,
                              remedy="leave it out, or state attention_factor")  # fmt: skip

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """Pairs before the ramp kept, pairs after it divided, a blend on it."""
        keep = [1.0 - r for r in self.ramp(rotary.rope_theta, rotary.rotary_dim)]
        rules = self._rules(rotary.rope_theta, rotary.rotary_dim)
        return blend(plain(rotary), self.factor, keep), rules

    def amplitude(self) -> tuple[float, str]:
        """attention_factor, else the mscale pair, else 0.1 ln s + 1."""
        s, mscale, all_dim = self.factor, self.mscale, self.mscale_all_dim
        if self.attention_factor is not None:
            return self.attention_factor, "attention_factor as stated"
        if mscale and all_dim:
            value = yarn_mscale(s, mscale) / yarn_mscale(s, all_dim)
            return value, f"m({s:g}, mscale {mscale:g}) / m({s:g}, mscale_all_dim {all_dim:g})"
        return yarn_mscale(s), f"0.1 ln {s:g} + 1"

    def bounds(self, base: float, rotary_dim: int) -> tuple[float, float]:
        """The pair indices between which the ramp runs (2309.00071, section 3.2, and its code).

        index(r) = d ln(T / (2 pi r)) / (2 ln base), the pair that makes r rotations in T tokens;
        low at beta_fast, high at beta_slow, rounded outwards when `truncate`, within [0, d - 1].

        Raises ScheduleError when the ends cross, which happens for very small T.
        """
        low, high = self._ends(base, rotary_dim)
        low, high = max(low, 0), min(high, rotary_dim - 1)
        if high < low:
            raise ScheduleError(
                f"YaRN's ramp runs from pair {low:g} down to {high:g}: a trained length of "
                f"{self.original_max_position_embeddings} tokens is too short for beta_fast "
                f"{self.beta_fast:g} and beta_slow {self.beta_slow:g} at base {base:g}; check the "
                "original length"
            )
        return low, high if high != low else high + 0.001

    def ramp(self, base: float, rotary_dim: int) -> list[float]:
        """The share of interpolation of each pair: 0 keeps a pair, 1 divides it by the factor."""
        low, high = self.bounds(base, rotary_dim)
        return [min(max((i - low) / (high - low), 0.0), 1.0) for i in range(rotary_dim // 2)]

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> Yarn:
        """By a factor from the trained length, with the paper's ends and amplitude."""
        return cls(number, needed(trained, claimed, cls.kind))

    def _ends(self, base: float, rotary_dim: int) -> tuple[float, float]:
        """The ends of the ramp before they are held within the table."""

        def index(rotations: float) -> float:
            tokens = self.original_max_position_embeddings
            span = math.log(tokens) - math.log(rotations * 2.0 * math.pi)
            return rotary_dim * span / (2.0 * math.log(base))

        low, high = index(self.beta_fast), index(self.beta_slow)
        return (math.floor(low), math.ceil(high)) if self.truncate else (low, high)

    def _rules(self, base: float, dim: int) -> tuple[str, ...]:
        """Where the ramp runs, and which of its ends had to be held."""
        low, high = self.bounds(base, dim)
        ends = "rounded outwards" if self.truncate else "not rounded"
        rules = [
            f"ramp over the pair index from {low:.6g} to {high:.6g}, {ends}: pairs before it kept, "
            f"pairs after it divided by {self.factor:g}"
        ]
        raw_low, raw_high = self._ends(base, dim)
        if raw_low < 0:
            rules.append(f"the ramp would begin at pair {raw_low:.6g} and is held at 0")
        if raw_high > dim - 1:
            rules.append(f"the ramp would end at pair {raw_high:.6g} and is held at {dim - 1}")
        if max(raw_low, 0) == min(raw_high, dim - 1):
            rules.append("both ends fall on one pair: 0.001 is added to the upper one")
        return tuple(rules)


def yarn_mscale(factor: float, weight: float = 1.0) -> float:
    """0.1 * weight * ln(factor) + 1, and 1 for a factor of 1 or less (2309.00071, section 3.4)."""
    return 1.0 if factor <= 1.0 else 0.1 * weight * math.log(factor) + 1.0


def deepseek_amplitude(factor: float, mscale: float | None, all_dim: float | None) -> float:
    """What multiplies cos and sin in DeepSeek's YaRN: m(s, mscale) / m(s, mscale_all_dim).

    An absent mscale is 1 and an absent mscale_all_dim 0, as in the model's published code
    (`modeling_deepseek.py`, `DeepseekV2YarnRotaryEmbedding`).
    """
    return yarn_mscale(factor, 1.0 if mscale is None else mscale) / yarn_mscale(
        factor, all_dim or 0.0
    )


def deepseek_softmax(factor: float, all_dim: float | None) -> float:
    """What multiplies the softmax scale of its latent attention: m(s, mscale_all_dim) squared."""
    return yarn_mscale(factor, all_dim or 0.0) ** 2
