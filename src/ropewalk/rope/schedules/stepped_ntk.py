"""NTK-aware scaling whose base grows in steps, as Qwen's first models have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ropewalk.rope import checks
from ropewalk.rope.schedules.ntk import ntk_base
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
class SteppedNtk(Rescaling):
    """A base that takes a step each time a prompt passes a doubling of `seq_length`.

    With L the tokens of the prompt, alpha = 2^ceil(log2(L / seq_length) + 1) - 1 and the base is
    rope_theta alpha^(d / (d - 2)): alpha is 3 up to twice seq_length, 7 up to four times.
    Source: `get_ntk_alpha` and `RotaryEmbedding` in the code of Qwen-7B, which `use_dynamic_ntk`
    turns on; no `rope_type` of transformers says it.
    """

    kind: ClassVar[str] = "stepped ntk"
    spelled: ClassVar[SpelledAs] = SpelledAs()
    origin: ClassVar[OriginWords] = OriginWords(
        "stepped-ntk",
        "NTK-aware base in steps: as trained up to {seq_length} tokens, and a larger base with "
        "each doubling of the prompt beyond",
        "No training is implied.",
    )

    seq_length: int

    def __post_init__(self) -> None:
        """Refuse a start that is no length."""
        checks.length("the stepped ntk seq_length", self.seq_length,
                      remedy="state seq_length, from where the base grows")  # fmt: skip

    @property
    def depends_on_length(self) -> bool:
        """Always."""
        return True

    def alpha(self, length: int | None) -> float:
        """By how much the slowest pair is divided in a prompt of `length` tokens."""
        if length is None or length <= self.seq_length:
            return 1.0
        return 2.0 ** math.ceil(math.log2(length / self.seq_length) + 1.0) - 1.0

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:
        """A base that grows with the prompt."""
        alpha = self.alpha(length)
        larger = ntk_base(rotary.rope_theta, rotary.rotary_dim, alpha)
        rule = (
            f"base {rotary.rope_theta:.10g} as it is, up to {self.seq_length} tokens"
            if alpha == 1.0
            else f"alpha 2^ceil(log2({length} / {self.seq_length}) + 1) - 1 = {alpha:g} raises the "
            f"base to {larger:.8g}"
        )
        return plain_inv_freq(larger, rotary.rotary_dim), (rule,)
