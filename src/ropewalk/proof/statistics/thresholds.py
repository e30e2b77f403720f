"""What a length has to clear to pass: a share of the model's own score, or a fixed accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class RelativeThreshold:
    """A length passes above `share` of the model's own score at the shortest length.

    The score is the observed one, taken as known. The shortest length is judged like every
    other one: it is certain only once its own interval lies above `share` of its own score,
    which at full marks takes 22 answers for a share of 0.85.
    """

    share: float = 0.85

    def __post_init__(self) -> None:
        """Raise UsageError unless 0 < share < 1."""
        _check_open_unit(self.share, "relative")

    def bar(self, score: float) -> float:
        """The accuracy to clear, for a model that scores `score` at the shortest length."""
        return self.share * score


@short
@dataclass(frozen=True, slots=True)
class AbsoluteThreshold:
    """A length passes above the accuracy `value`, whatever the model does when it is short."""

    value: float

    def __post_init__(self) -> None:
        """Raise UsageError unless 0 < value < 1."""
        _check_open_unit(self.value, "absolute")

    def bar(self, score: float) -> float:  # noqa: ARG002 - one interface for both kinds
        """The accuracy to clear."""
        return self.value


Threshold = RelativeThreshold | AbsoluteThreshold


def parse_threshold(text: str) -> Threshold:
    """Read "0.85" or "relative:0.85" as relative, "absolute:0.7" as absolute.

    Raises UsageError for anything else, and for numbers outside 0 to 1, ends excluded: an
    interval never reaches 1, so that a bar of 1 could never be cleared.
    """
    kind, colon, number = text.strip().rpartition(":")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind == "absolute" and not math.isnan(value):
        return AbsoluteThreshold(value)
    if (kind == "relative" or not colon) and not math.isnan(value):
        return RelativeThreshold(value)
    raise UsageError(
        f"threshold {text!r} is not understood: write 0.85 or relative:0.85 for a share of the "
        "model's own score at the shortest length, or absolute:0.7 for a fixed accuracy."
    )


def _check_open_unit(value: float, kind: str) -> None:
    if not 0 < value < 1:
        raise UsageError(
            f"a {kind} threshold of {value:g} is impossible: it must lie between 0 and 1, ends "
            "excluded."
        )
