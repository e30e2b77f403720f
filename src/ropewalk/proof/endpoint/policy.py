"""When the next request may be sent, and which are sent again.

Rates are token buckets that refill steadily; what is taken is an amount (one request, or the tokens
of a prompt). Waiting is cut short by an event, so that Ctrl-C does not wait for a minute to pass.

HTTP statuses by RFC 9110, `Retry-After` by its section 10.2.3 (seconds, or a date). The pause
before another try grows exponentially and is drawn at random between 0 and that ("full jitter"),
so that many clients do not come back together.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random

WINDOW = 60.0
"""Seconds in which a limit counts."""

Clock = Callable[[], float]


class TokenBucket:
    """At most `per_minute` of something in any 60 seconds, evenly, with no burst at the start.

    It holds a second's worth, or one request; full at first. What is more than it holds may be
    taken once it is full, and is paid back before anything else is. Not safe between threads:
    `Gate` holds the lock.
    """

    def __init__(self, per_minute: float, clock: Clock = time.monotonic) -> None:
        # What the bucket holds at first and what flows in during 60 s make `per_minute` together.
        self._rate = per_minute / (WINDOW + 1)
        self._holds = max(1.0, self._rate)
        self._level = self._holds
        self._clock = clock
        self._seen = clock()

    def take(self, amount: float) -> float:
        """Take `amount`, and return after how many seconds it may be used (0 for now)."""
        now = self._clock()
        self._level = min(self._holds, self._level + (now - self._seen) * self._rate)
        self._seen = now
        wait = max(0.0, (min(amount, self._holds) - self._level) / self._rate)
        self._level -= amount
        return wait


class RequestGate:
    """Where every request of a run passes: rates of requests and of tokens, and pauses.

    The rates are of all servers together. `stop` ends every wait at once. `clock` and `wait`
    stand for time.monotonic and stop.wait in tests.
    """

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        clock: Clock = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self.stop = threading.Event()
        self._clock = clock
        self._wait = wait or self.stop.wait
        self._requests = TokenBucket(requests_per_minute, clock) if requests_per_minute else None
        self._tokens = TokenBucket(tokens_per_minute, clock) if tokens_per_minute else None
        self._lock = threading.Lock()
        self._closed_until = clock()

    def enter(self, tokens: int) -> None:
        """Wait until a request of `tokens` tokens may be sent."""
        with self._lock:
            waits = [self._closed_until - self._clock()]
            if self._requests is not None:
                waits.append(self._requests.take(1))
            if self._tokens is not None:
                waits.append(self._tokens.take(tokens))
        self.sleep(max(waits))

    def close(self, seconds: float) -> None:
        """Let no request through for `seconds`: a server asked everybody to wait."""
        with self._lock:
            self._closed_until = max(self._closed_until, self._clock() + seconds)

    def sleep(self, seconds: float) -> None:
        """Wait, unless the run is being stopped."""
        if seconds > 0:
            self._wait(seconds)


TRIES = 6
"""Times that a request is sent before it counts as failed."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
LONGEST_OBEYED = 600.0
"""Seconds; a server that asks for more is busy for good."""

BUSY = frozenset({408, 409, 425, 429, *range(500, 600)} - {501})
"""Statuses of a server, or of what stands before it, that may answer a little later."""


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
