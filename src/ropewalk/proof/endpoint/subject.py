"""One model at one or more servers: how it is asked, what is sent, and the answer that comes back.

What is found out on the way is kept to: parameters that are refused, lengths that are, and whether
a cache confuses the counts.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from secrets import randbelow
from typing import Any

from ropewalk.errors import LengthError, ModelFileError, UsageError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Prompt
from ropewalk.proof.endpoint.client import (
    Client,
    PromptTooLongError,
    RejectedError,
    ThrottledError,
    checked_url,
)
from ropewalk.proof.endpoint.counting import Counting
from ropewalk.proof.endpoint.cuts import CutCheck
from ropewalk.proof.endpoint.dialect import CHAT, COMPLETIONS, ApiDialect, asked
from ropewalk.proof.endpoint.judging import judge
from ropewalk.proof.endpoint.limits import LengthLimits
from ropewalk.proof.endpoint.plain_text import beginning, fresh_line, sentences
from ropewalk.proof.endpoint.policy import TRIES
from ropewalk.proof.endpoint.refusals import Sent
from ropewalk.proof.endpoint.replies import Reply
from ropewalk.proof.prompt import CHAT_ANSWER_TOKENS, PromptMaker
from ropewalk.proof.tokens import Tokens
from ropewalk.short import short, short_with

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


def endpoint_settings(
    model: str, base_urls: Iterable[str] | None, *, api: str = "auto",
    tokenizer: str | None = None, concurrency: int | None = None,
    requests_per_minute: float | None = None, tokens_per_minute: float | None = None,
    timeout: float = 600.0, salt: bool = False,
) -> EndpointSettings | None:  # fmt: skip
    """How servers are to be asked; None for a model that is run here.

    The rest are fields of `EndpointSettings`. Without addresses it is OPENAI_BASE_URL's, as for
    every program with OpenAI's client. Raises UsageError for what cannot be, and for manners where
    there is no server.
    """
    manners: dict[str, Any] = {
        "api": api, "tokenizer": tokenizer, "concurrency": concurrency,
        "requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute,
        "timeout": timeout, "salt": salt,
    }  # fmt: skip
    urls = tuple(base_urls or ())
    if model.startswith(PREFIX):
        usual_address = os.environ.get("OPENAI_BASE_URL")
        return EndpointSettings(urls or ((usual_address,) if usual_address else ()), **manners)
    usual = EndpointSettings(("http://localhost/v1",))
    changed = [name for name, value in manners.items() if value != getattr(usual, name)]
    for name in ["base_url"] * bool(urls) + changed:
        option = name.replace("_", "-")
        raise UsageError(f"--{option} goes with a model at a server, like {PREFIX}NAME")
    return None


_MARK = "<what the user says>"
_MORE = 1
"""Tokens of a base answer beyond the value: what follows a number says whether it has ended."""
_VAGUE_MORE = 8
"""The same where the value's tokens are only estimated."""
_FEW = 8
"""Tokens by which a server's own words may differ from what is due: it counts what it adds."""
SALT_ROOM = 20
"""Tokens kept free for the salt: twelve digits, the words around them, and some to spare."""


CONFUSED = (
    "{url} leaves out of its counts what its cache held: every prompt begins with a line of its "
    "own from here on, as with --salt"
)


@short_with("model", "dialect")
@dataclass(slots=True)
class EndpointSubject:
    """Asks `model` through `dialect`; safe between threads.

    `counting` translates our tokens into the server's. `window` is the most tokens of prompt
    and answer as the server states it, None when it does not. `salt` puts a random first line
    before every prompt, so that no cache helps; it is put there from the time on that a cache is
    found to confuse the counts, as `dialect` changes where a parameter is refused. `told` hears
    of both. `limits` and `cuts` are what is known of the servers so far.
    """

    model: str
    dialect: ApiDialect
    tokens: Tokens
    counting: Counting = field(default_factory=Counting)
    window: int | None = None
    salt: bool = False
    answer_tokens: int = CHAT_ANSWER_TOKENS
    told: Callable[[str], None] = lambda _: None
    limits: LengthLimits = field(init=False)
    cuts: CutCheck = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        self.limits = LengthLimits(self._neutral)
        self.cuts = CutCheck(self.finds)

    @property
    def chat(self) -> bool:
        """Whether prompts go as messages."""
        return self.dialect.api == CHAT

    @property
    def salted(self) -> int:
        """Our tokens that are kept free for the salt."""
        return SALT_ROOM if self.salt else 0

    def answer(self, prompt: Prompt, client: Client) -> Answer:
        """The answer of the server behind `client`.

        Raises EndpointError and ServerGoneError as `Client.ask`; everything else is an outcome.
        """
        begun = time.perf_counter()
        content, own = self.content(prompt)
        most = self.most(prompt, own)
        outcome = Outcome.ERROR
        try:
            reply = self._ask(client, content, own, most)
            self._check_holds_answer(prompt)
            cut = self._is_cut(client, prompt, own, reply)
        except PromptTooLongError as error:
            outcome, said = Outcome.OVERFLOW, str(error)
        except ThrottledError as error:
            outcome = Outcome.THROTTLED
            said = f"{error}; that is a rate and no window: wait, or ask for shorter lengths"
        except RejectedError as error:
            said = str(error)
        else:
            counted = self.counting.whole(own, reply.prompt_tokens, reply.cached_tokens)
            return judge(
                replace(reply, prompt_tokens=counted),
                prompt,
                self.counting.expected(own),
                chat=self.chat,
                most=self.dialect.most(most) if self.dialect.limit else 0,
                cut=cut,
            )
        return Answer(outcome, None, said, time.perf_counter() - begun)

    def finds(self, client: Client, length: int, depth: float) -> bool:
        """Whether a fact at `depth` of a new text of `length` of the server's tokens is found.

        Not where such a text is not answered, or cannot be laid out. Raises as `Client.ask`.
        """
        maker = PromptMaker(self.tokens, randbelow(1 << 30), self.chat, 0, self.answer_tokens)
        try:
            prompt = ServedPrompts(maker, self.counting, SALT_ROOM)(Cell(length, depth, 0))
            content, own = self.content(prompt, salt=True)
            reply = self._ask(client, content, own, self.most(prompt, own))
        except (LengthError, PromptTooLongError, ThrottledError, RejectedError):
            return False
        answer = judge(reply, prompt, 0, chat=self.chat, most=0)
        return answer.outcome is Outcome.HIT

    def _ask(
        self, client: Client, content: str | Sequence[int], own: int, most: int, tries: int = TRIES
    ) -> Reply:
        """The reply to what is sent. Raises as `Client.ask`."""
        expected = self.counting.expected(own)
        sent = Sent(expected, most, max(_FEW, self.counting.slack(expected)))
        return self.limits.ask(
            client, sent, lambda n, doubt: self._send(client, content, sent, n, doubt=doubt), tries
        )

    def _send(
        self, client: Client, content: str | Sequence[int], sent: Sent, tries: int, *, doubt: bool
    ) -> Reply:
        """Ask, and keep to what the server takes where it does not take all."""
        before = self.dialect
        found, reply = asked(client, self.model, before, content, sent, tries=tries, doubt=doubt)
        with self._lock:
            if found != before and self.dialect == before:
                self.dialect = found
                self.told(
                    f"{client.url} did not take it as it was asked; from here on: {found.words()}"
                )
        return reply

    def _check_holds_answer(self, prompt: Prompt) -> None:
        """Raise RejectedError where the server allows fewer tokens than the answer has."""
        needed = int(self.counting.ratio * len(prompt.value_ids))
        if self.dialect.most(needed) < needed:
            raise RejectedError(
                f"the server allows {self.dialect.cap} tokens an answer, and this one has {needed}"
            )

    def _neutral(self, client: Client, length: int, tries: int) -> Reply:
        """The reply to plain text of `length` of the server's tokens."""
        size = self.counting.own(length)
        text = beginning(sentences(self.tokens, size), size, self.tokens)
        content: str | Sequence[int] = text
        if not self.chat:
            ids = self.tokens.encode(text)
            content = ids if self.dialect.ids else text
        return self._send(client, content, Sent(length), tries, doubt=True)

    def _is_cut(self, client: Client, prompt: Prompt, own: int, reply: Reply) -> bool:
        """Whether the server cut the prompt, as its answers show where its count says so."""
        if not self.counting.seems_cut(own, reply.prompt_tokens, reply.cached_tokens):
            return False
        counted = reply.prompt_tokens or 0
        known = self.cuts.known(client, self.counting.expected(own), counted)
        if known is not None:
            return known
        content, own = self.content(prompt, salt=True)
        again = self._ask(client, content, own, self.most(prompt, own))
        whole = self.counting.whole(own, again.prompt_tokens, again.cached_tokens)
        if whole is not None and whole >= self.counting.least(own):
            with self._lock:
                if not self.salt:
                    self.salt = True
                    self.told(CONFUSED.format(url=client.url))
            return False
        # Where the new line was cut off, the cache held the rest.
        counted = max(counted, again.prompt_tokens or 0)
        return self.cuts.is_cut(client, self.counting.expected(own), counted)

    def content(self, prompt: Prompt, *, salt: bool = False) -> tuple[str | tuple[int, ...], int]:
        """What is sent for a prompt, and how many of our tokens the server reads for it."""
        line = fresh_line() if self.salt or salt else ""
        if self.chat:
            head, _, tail = self.tokens.chat(_MARK).partition(_MARK)
            inside = prompt.text.removeprefix(head).removesuffix(tail)
            if len(inside) + len(head) + len(tail) != len(prompt.text):
                raise ModelFileError("the chat template changes with what is said; give --api")
            salted = len(self.tokens.encode(line, special=False)) if line else 0
            return line + inside, len(prompt.token_ids) + salted
        if not line:
            content = prompt.token_ids if self.dialect.ids else prompt.text
            return content, len(prompt.token_ids)
        ids = self.tokens.encode(line + prompt.text)
        return (tuple(ids) if self.dialect.ids else line + prompt.text), len(ids)

    def most(self, prompt: Prompt, own: int) -> int:
        """Tokens that the answer may have, within what the window leaves."""
        budget = max(prompt.budget, len(prompt.value_ids))
        if not self.chat:
            budget += _MORE if self.counting.exact else _VAGUE_MORE
        if self.window is None:
            return budget
        return max(1, min(budget, self.window - self.counting.expected(own)))

    def actual_length(self, prompt: Prompt) -> int:
        """Tokens of prompt and answer as the server counts them, salt included."""
        own = len(prompt.token_ids) + self.salted
        budget = prompt.length - len(prompt.token_ids)
        return self.counting.expected(own) + round(self.counting.ratio * budget)


@short
@dataclass(frozen=True, slots=True)
class ServedPrompts:
    """Lays out cells whose lengths are in the server's tokens."""

    maker: Callable[[Cell], Prompt]
    counting: Counting
    salted: int = 0

    def __call__(self, cell: Cell) -> Prompt:
        """The prompt of a cell; raises as `maker`."""
        if cell.control is Control.NEEDLE_ONLY:
            return self.maker(cell)
        return replace(self.maker(replace(cell, length=self.own(cell.length))), cell=cell)

    def own(self, length: int) -> int:
        """Our tokens of a prompt of `length` of the server's."""
        return self.counting.own(length) - self.salted
