"""What the terminal and the HTML heat map share: marks, places of the lengths, colours, numbers.

Colours run from orange (no hits) over sand to blue (all hits). Orange and blue stay apart in
every common form of colour blindness, and each field also prints its numbers, so that colour is
never the only carrier. All colours are ``#rrggbb`` in sRGB.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from itertools import pairwise

from ropewalk.proof.cells import UNJUDGED, Outcome
from ropewalk.proof.summary import CellSummary, EffectiveLength, Reason, RunSummary, Share

_STOPS = (
    (0.0, (0xB8, 0x4E, 0x14)),
    (0.25, (0xE2, 0x95, 0x4E)),
    (0.5, (0xE9, 0xDF, 0xCD)),
    (0.75, (0x86, 0xB4, 0xD8)),
    (1.0, (0x1F, 0x62, 0xA3)),
)
# Pure black and white: with any softer pair some step of the scale has no ink of contrast 4.5.
_DARK_INK = "#000000"
_LIGHT_INK = "#ffffff"


class Mark(StrEnum):
    """What a field of the map shows."""

    SHARE = "share"
    """Hits of judged answers."""
    UNASKED = "not asked"
    """No answer is kept yet."""
    OVERFLOW = "overflow"
    """Every kept answer says that the prompt does not fit."""
    ERROR = "error"
    """Nothing was judged, and something broke: the same command asks again."""
    TRUNCATED = "truncated"
    """Nothing was judged; the server cut prompts."""
    REFUSED = "refused"
    """Nothing was judged; the model declined."""
    EMPTY = "empty"
    """Nothing was judged; answers were empty."""


def mark_of(cell: CellSummary) -> Mark:
    """Return what the field of `cell` shows; the first of what can be is shown.

    ERROR counts before OVERFLOW, and that before the answers that could not be judged.
    """
    if cell.share.judged:
        return Mark.SHARE
    for outcome in (Outcome.ERROR, Outcome.OVERFLOW, *UNJUDGED):
        if cell.outcomes.get(outcome, 0):
            return Mark(outcome.value.lower())
    return Mark.UNASKED


def flag(cell: CellSummary) -> str:
    """Return the flag of a field with a share, or none.

    ``!`` some errors, ``^`` some overflows, ``~`` some that could not be judged.
    """
    if not cell.share.judged:
        return ""
    if cell.outcomes.get(Outcome.ERROR, 0):
        return "!"
    if cell.outcomes.get(Outcome.OVERFLOW, 0):
        return "^"
    return "~" if any(cell.outcomes.get(outcome, 0) for outcome in UNJUDGED) else ""


def by_place(summary: RunSummary) -> dict[tuple[int, float], CellSummary]:
    """Return the fields by (length, depth)."""
    return {(cell.length, cell.depth): cell for cell in summary.cells}


def columns_within(lengths: tuple[int, ...], limit: int | None) -> int:
    """Return how many of the ascending `lengths` are at most `limit`; 0 for None.

    The line of a claimed length stands behind that many columns, a bar of an effective length
    covers them.
    """
    return 0 if limit is None else bisect_right(lengths, limit)


def tokens(count: int | None) -> str:
    """Return a length with thousands separated, ``unknown`` for None."""
    return "unknown" if count is None else f"{count:,}"


def percent(value: float, *, space: bool = True) -> str:
    """Return a share from 0 to 1 as a percentage, at most one decimal: ``50 %`` or ``33.3 %``."""
    number = f"{100 * value:.1f}".removesuffix(".0")
    return f"{number} %" if space else f"{number}%"


def interval(share: Share) -> str:
    """Return the interval in whole per cent, ``84-100%``; ``-`` if nothing is judged."""
    return f"{100 * share.low:.0f}-{100 * share.high:.0f}%" if share.judged else "-"


def fraction(share: Share) -> str:
    """Return ``hits/judged``; ``-`` if nothing is judged."""
    return f"{share.hits}/{share.judged}" if share.judged else "-"


def why(reason: Reason) -> str:
    """What the schedule says of a length that fell short, at its worst depth."""
    depth = percent(reason.depth)
    at = f"every depth alike, {depth} too" if reason.alike else f"worst at {depth}"
    where = f"{tokens(reason.length)} tokens, {at}"
    if not reason.likely:
        return f"{where}: nothing in the schedule speaks against it."
    return f"{where}, likely because {'; '.join(reason.likely)}."


def further(effective: EffectiveLength, unit: str) -> str:
    """What more trials may do for the first length that is not certain."""
    count = effective.more_trials
    what = f"{tokens(count)} more {unit}{'s' * (count > 1)}{' a cell' * (unit == 'trial')}"
    return f"about {what} would make the next length certain, if it goes on so"


def colour(value: float) -> str:
    """Return the scale's colour at a share from 0 to 1, linear between its stops."""
    for (low, a), (high, b) in pairwise(_STOPS):
        if value <= high:
            part = (value - low) / (high - low)
            mixed = (round(x + part * (y - x)) for x, y in zip(a, b, strict=True))
            return "#" + "".join(f"{channel:02x}" for channel in mixed)
    raise ValueError(f"a share lies between 0 and 1, not {value!r}")


def luminance(hexadecimal: str) -> float:
    """Return the relative luminance of ``#rrggbb`` by WCAG 2.1, from 0 (black) to 1 (white)."""
    channels = (int(hexadecimal[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    """Return the WCAG 2.1 contrast ratio of two colours, from 1 to 21."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def ink(background: str) -> str:
    """Return the ink, dark or light, that is easier to read on `background`."""
    return max((_DARK_INK, _LIGHT_INK), key=lambda candidate: contrast(candidate, background))
