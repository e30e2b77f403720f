"""What to do about a request that brought no answer: which errors are sent again, and when.

HTTP statuses by RFC 9110, `Retry-After` by its section 10.2.3 (seconds, or a date). The pause
before another try grows exponentially and is drawn at random between 0 and that ("full jitter"),
so that many clients do not come back together.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from random import Random

TRIES = 6
"""Times that a request is sent before it counts as failed."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
LONGEST_OBEYED = 600.0
"""Seconds; a server that asks for more is busy for good."""

_SENT_AGAIN = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(
    r"context.{0,30}(length|size|window|limit)|(length|size|window|limit).{0,30}context"
    r"|maximum.{0,20}(tokens|sequence|model) ?(length|len)?|max_model_len|max_new_tokens"
    r"|(prompt|input|request).{0,40}(too long|too large|too many tokens)"
    r"|too many (input |prompt )?tokens|exceed.{0,40}(token|context)",
    re.I | re.DOTALL,
)


class Verdict(StrEnum):
    """What an HTTP status amounts to."""

    AGAIN = "again"
    """It may pass: send the same request again after a pause."""
    TOO_LONG = "too long"
    """The prompt does not fit, and never will."""
    STOP = "stop"
    """Every request would end like this: no key, no such model, no such address."""
    REJECTED = "rejected"
    """This request is not taken; another one may be."""


def judge_status(status: int, said: str) -> Verdict:
    """What to do about a reply of `status` (400 and up) whose body says `said`."""
    if status in (400, 413, 422) and _TOO_LONG.search(said):
        return Verdict.TOO_LONG
    if status == 429 and "insufficient_quota" in said:
        return Verdict.STOP
    if status in (401, 402, 403, 404, 405, 501):
        return Verdict.STOP
    if status in _SENT_AGAIN or status >= 500:
        return Verdict.AGAIN
    return Verdict.REJECTED


def backoff(tries: int, random: Random) -> float:
    """Seconds to wait after the `tries`-th try (from 1), drawn from 0 to FIRST_PAUSE * 2^tries."""
    return random.uniform(0.0, min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**tries))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that the server asks to wait, None where it does not say so in a way that is known.

    `now` is the time as seconds since 1970, the clock's when it is not given.
    """
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return max(0.0, exact / 1000)
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None:
        return max(0.0, seconds)
    if not text:
        return None
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    # A date without a zone is in UTC, as all of HTTP is.
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\s*[0-9]{1,12}(\.[0-9]{1,6})?\s*", text) else None
