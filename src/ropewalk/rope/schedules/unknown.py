"""A scaling type that a file names and this package does not know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ropewalk.errors import ScheduleError
from ropewalk.rope.schedules.rescaling import (
    OriginWords,
    Rescaled,
    Rescaling,
    Rotates,
    SpelledAs,
)
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class UnknownScaling(Rescaling):
    """A scaling type this package does not know. Its frequencies cannot be computed."""

    kind: ClassVar[str] = "unknown"
    spelled: ClassVar[SpelledAs] = SpelledAs()
    origin: ClassVar[OriginWords] = OriginWords(
        "unknown", "Unknown: scaling {word!r} is not known here", ""
    )

    word: str
    parameters: tuple[tuple[str, str], ...] = field(default=())

    @property
    def name(self) -> str:
        """The file's word."""
        return self.word

    def rescaled(self, rotary: Rotates, length: int | None) -> Rescaled:  # noqa: ARG002
        """Refused."""
        raise ScheduleError(
            f"scaling type {self.word!r} is not known here, so its frequencies cannot be computed; "
            "see whether it is another name of a type that is"
        )
