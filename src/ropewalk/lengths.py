"""How a length in tokens is written: 4096, 4k, 1M; one syntax wherever a user gives one."""

from __future__ import annotations

import re

from ropewalk.errors import LengthError

MOST_TOKENS = 2**31 - 1
"""Positions are 32-bit integers in many engines."""

UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}
"""What follows the number, in either case."""

SYNTAX = "k is 1024 and M is 1024 k"

_LENGTH = re.compile(r"\s*([0-9]{1,10}|[0-9]{1,3}(?:_[0-9]{3}){1,3})([km]?)\s*", re.IGNORECASE)


def read_length(text: str) -> int | None:
    """The tokens of one length, like 4096, 1_000_000, 4k or 1M; None for text that is none.

    k is 1024 tokens and M is 1024 k. Whether so many can be is for the caller to say.
    """
    found = _LENGTH.fullmatch(text)
    return None if found is None else int(found[1]) * UNITS[found[2].lower()]


def parse_length(text: str, option: str = "the length") -> int:
    """The tokens of `option`, one length. Raises LengthError outside 1 to MOST_TOKENS."""
    length = read_length(text)
    if length is None:
        raise LengthError(
            f"{option} {text!r} is not understood: write one length in whole tokens, like 4096, "
            f"4k or 1M, where {SYNTAX}."
        )
    if not 1 <= length <= MOST_TOKENS:
        raise LengthError(f"{option} of {length} tokens is impossible: 1 to {MOST_TOKENS} can be.")
    return length
