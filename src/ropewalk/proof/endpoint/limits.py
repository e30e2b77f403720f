"""Whether a refusal is about length, by experiment: no words are needed for that.

A limit of length is what comes again above a length and does not come below it. So where a server
refuses a prompt that is longer than any it has answered, and does not say why in a way that is
known, another text of that length is sent, and a shorter one. The first is refused and the second
answered: then it is the length. Anything else is another trouble.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from ropewalk.errors import EndpointError
from ropewalk.proof.endpoint.client import (
    Client,
    PromptTooLongError,
    RejectedError,
    ThrottledError,
)
from ropewalk.proof.endpoint.refusals import Sent
from ropewalk.proof.endpoint.replies import Reply

_TRIES = 2
"""Of the texts of an experiment: what is refused is refused at once."""
_NEAR = 0.97
"""Counts of different texts agree to so much; a limit that was found holds a little below, too."""

Send = Callable[[int, bool], Reply]
"""send(tries, doubt): ask, as `Client.ask`."""
Neutral = Callable[[Client, int, int], Reply]
"""neutral(client, tokens, tries): ask with a text of so many of the server's tokens."""


@dataclass(slots=True)
class _Known:
    """Of one server: the longest prompt that it answered and the shortest that was too long."""

    answered: int = 0
    refused: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class LengthLimits:
    """What lengths servers have answered and refused. Safe between threads."""

    def __init__(self, neutral: Neutral) -> None:
        self._neutral = neutral
        self._known: defaultdict[str, _Known] = defaultdict(_Known)

    def answered(self, url: str, tokens: int) -> None:
        """Note a prompt that was answered."""
        known = self._known[url]
        known.answered = max(known.answered, tokens)

    def ask(self, client: Client, sent: Sent, send: Send, tries: int) -> Reply:
        """The reply to a prompt. Raises PromptTooLongError also where only experiment shows it.

        Else raises as `Client.ask`.
        """
        known = self._known[client.url]
        try:
            reply = send(tries, sent.tokens > known.answered)
        except PromptTooLongError:
            known.refused = min(known.refused or sent.tokens, sent.tokens)
            raise
        except RejectedError as error:
            if not error.unexplained or sent.tokens <= known.answered:
                raise
            shorter = self._limit(client, known, sent.tokens)
            if shorter is not None:
                raise PromptTooLongError(
                    f"{error}; it says so again to another text of {sent.tokens:,} tokens, and "
                    f"answers one of {shorter:,}: a limit of length"
                ) from error
            if not error.early:
                raise
            reply = send(tries, False)
        self.answered(client.url, sent.tokens)
        return reply

    def _limit(self, client: Client, known: _Known, tokens: int) -> int | None:
        """The length of a shorter text that is answered, where one of `tokens` is refused."""
        with known.lock:
            if known.refused is not None and tokens >= _NEAR * known.refused:
                return known.answered
            shorter = known.answered or tokens // 2
            if not self._is_refused(client, tokens) or self._is_refused(client, shorter):
                return None
            known.refused = tokens
            known.answered = max(known.answered, shorter)
            return shorter

    def _is_refused(self, client: Client, tokens: int) -> bool:
        try:
            self._neutral(client, tokens, _TRIES)
        except (PromptTooLongError, RejectedError, ThrottledError, EndpointError):
            return True
        return False
