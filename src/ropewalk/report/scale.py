"""Colours of shares, and how counts, shares and intervals are printed.

Colours run from orange (no hits) over sand to blue (all hits). Orange and blue stay apart in
every common form of colour blindness, and each field also prints its numbers, so that colour is
never the only carrier. All colours are ``#rrggbb`` in sRGB.
"""

from __future__ import annotations

from itertools import pairwise

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


def tokens(count: int | None) -> str:
    """Return a length with thousands separated, ``unknown`` for None."""
    return "unknown" if count is None else f"{count:,}"


def percent(value: float) -> str:
    """Return a share from 0 to 1 as a percentage, at most one decimal: ``50 %`` or ``33.3 %``."""
    return f"{f'{100 * value:.1f}'.removesuffix('.0')} %"


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
