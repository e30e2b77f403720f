"""No rescaling: the frequencies of rope_theta alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
class Unscaled(Rescaling):
    """The frequencies of the base alone (RoFormer, 2104.09864, section 3.3)."""

    kind: ClassVar[str] = "default"
    spelled: ClassVar[SpelledAs] = SpelledAs(
        hf5="default", hf4="default", hf_aliases=("mrope",), gguf="none", rope="none"
    )
    origin: ClassVar[OriginWords] = OriginWords(
        "as-trained", "As trained: nothing in the file stretches positions", ""
    )
    number: ClassVar[str | None] = None

    @property
    def stretches(self) -> bool:
        """No."""
        return False

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """The plain frequencies."""
        return plain(rotary), (f"base {rotary.rope_theta:.10g}, nothing scaled",)

    @classmethod
    def asked(cls, number: float, trained: int | None, claimed: int | None) -> Unscaled:  # noqa: ARG003
        """`--rope none`."""
        return cls()
