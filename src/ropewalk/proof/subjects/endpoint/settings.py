"""How servers are to be asked, as given by the user; checked before anything is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.proof.subjects.endpoint.client import checked_url
from ropewalk.proof.subjects.endpoint.probe import CHAT, COMPLETIONS
from ropewalk.short import short

PREFIX = "openai:"
"""Stands before the name of a model that a server has."""

MOST_AT_ONCE = 256
APIS = {
    "auto": (COMPLETIONS, CHAT),
    "completions": (COMPLETIONS,),
    "chat": (CHAT,),
}


@short
@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Addresses and manners.

    `tokenizer` names the model whose tokenizer counts, None for the server's own or an estimate.
    `concurrency` is the requests under way at each server, None for its slots, or 4. Rates are a
    minute, of all servers together; `timeout` in seconds, of one request. Raises UsageError for
    what cannot be.
    """

    base_urls: tuple[str, ...]
    api: str = "auto"
    tokenizer: str | None = None
    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float = 600.0
    salt: bool = False

    def __post_init__(self) -> None:
        """Check every value."""
        if not self.base_urls:
            raise UsageError("an openai: model needs --base-url, like http://127.0.0.1:8080/v1")
        for url in self.base_urls:
            checked_url(url)
            if self.base_urls.count(url) > 1:
                raise UsageError(f"--base-url {url} is given twice: name each server once")
        if self.api not in APIS:
            raise UsageError(f"--api {self.api!r} is not known; choose one of {', '.join(APIS)}")
        if self.concurrency is not None and not 1 <= self.concurrency <= MOST_AT_ONCE:
            raise UsageError(
                f"--concurrency {self.concurrency} is impossible: 1 to {MOST_AT_ONCE} can be"
            )
        for name, value in (
            ("--requests-per-minute", self.requests_per_minute),
            ("--tokens-per-minute", self.tokens_per_minute),
            ("--timeout", self.timeout),
        ):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} {value:g} is impossible: give a number above 0")
