"""NTK-aware scaling that grows with the sequence."""

from __future__ import annotations

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
    needed,
    plain_inv_freq,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class DynamicNtk(Rescaling):
    """NTK-aware scaling by the current length (2309.00071, section 3.3).

    At and below `max_position_embeddings` nothing changes; transformers begins there, whatever
    the original length is said to be.
    """

    kind: ClassVar[str] = "dynamic"
    spelled: ClassVar[SpelledAs] = SpelledAs(
        hf5="dynamic",
        hf4="dynamic",
        hf_keys=frozenset({"factor", "alpha"}),
        rope="dynamic",
    )
    origin: ClassVar[OriginWords] = OriginWords(
        "dynamic",
        "Dynamic NTK: as trained up to {max_position_embeddings} tokens, and a base that grows "
        "with the prompt beyond",
        "No training is implied.",
    )

    factor: float
    max_position_embeddings: int

    def __post_init__(self) -> None:
        """Refuse a factor below 1 and a start that is no length."""
        checks.stretch("the dynamic scaling factor", self.factor)
        remedy = "state max_position_embeddings, from where scaling starts"
        checks.length("the dynamic max_position_embeddings", self.max_position_embeddings,
                      remedy=remedy)  # fmt: skip

    @property
    def depends_on_length(self) -> bool:
        """Always."""
        return True

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:
        """A base that grows with the sequence beyond the claimed length."""
        s, start = self.factor, self.max_position_embeddings
        # Below that length the multiplier would fall under 1 and then below 0.
        multiplier = s * max(length or 0, start) / start - (s - 1.0)
        larger = ntk_base(rotary.rope_theta, rotary.rotary_dim, multiplier)
        if length is None or length <= start:
            rule = f"base {rotary.rope_theta:.10g} as it is, up to {start} tokens"
        else:
            rule = (
                f"dynamic multiplier {s:g} x {length} / {start} - {s - 1.0:g} = {multiplier:.8g} "
                f"raises the base to {larger:.8g}"
            )
        return plain_inv_freq(larger, rotary.rotary_dim), (rule,)

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> DynamicNtk:
        """As transformers has it: nothing changes up to what the model claims."""
        return cls(number, needed(claimed, trained, cls.kind))
