"""One model at one or more servers: how it is asked, what is sent, and the answer that comes back.

A reply to a prompt that the server cut is TRUNCATED whatever it says. A refusal is one that
declines to act; "I cannot find it in the text" is an answer, and a wrong one.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from secrets import randbelow
from typing import Any

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Prompt
from ropewalk.proof.classify import classify, strip_thinking
from ropewalk.proof.endpoint.client import Client, PromptTooLongError, RejectedError, checked_url
from ropewalk.proof.endpoint.probe import CHAT, COMPLETIONS, ApiDialect, Counting
from ropewalk.proof.endpoint.replies import Reply
from ropewalk.proof.tokens import Tokens
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


OPENINGS = (
    "i can't",
    "i cannot",
    "i can not",
    "i am unable to",
    "i'm unable to",
    "i am not able to",
    "i'm not able to",
    "i won't",
    "i will not",
    "i must decline",
    "as an ai",
)
"""How a refusal begins, after an apology if there is one."""

ACTS = """answer assist comply continue disclose discuss do engage fulfil fulfill give help provide
reveal say share tell""".split()
"""What is declined, directly behind the opening; what comes after tells nothing more."""

_APOLOGY = re.compile(
    r"(i'?m (very |so |really )?sorry|i am (very )?sorry|sorry|i apologi[sz]e|unfortunately)"
    r"[,.!;:]*\s+((but|however),?\s+)?"
)


def is_refusal(text: str) -> bool:
    """Whether an answer declines: OPENINGS, and behind most of them one of ACTS."""
    plain = " ".join(text.replace("’", "'").lower().split())
    plain = _APOLOGY.sub("", plain, count=1) if _APOLOGY.match(plain) else plain
    for opening in OPENINGS:
        if plain.startswith(opening):
            rest = plain[len(opening) :].split()
            return opening in ("as an ai", "i must decline") or (
                bool(rest) and rest[0].strip(",.;:!") in ACTS
            )
    return False


def judge(
    reply: Reply, prompt: Prompt, counting: Counting, *, chat: bool, most: int, own: int
) -> Answer:
    """The answer that a reply is.

    `most` is the number of tokens that it was allowed, `own` how many of our tokens were sent.
    A reply that the end of the window cut short, and that is no HIT so far, is an
    OVERFLOW: its answer did not fit.
    """
    said = strip_thinking(reply.text)
    outcome = classify(said if chat else reply.text, prompt.value, prompt.distractors, chat=chat)
    if counting.was_cut(own, reply.prompt_tokens, reply.cached_tokens):
        outcome = Outcome.TRUNCATED
    elif reply.refusal is not None or reply.finish == "content_filter":
        outcome = Outcome.REFUSED
    elif outcome is not Outcome.HIT and _window_ended(reply, most):
        outcome = Outcome.OVERFLOW
    elif not said:
        outcome = Outcome.EMPTY
    elif outcome is Outcome.MISS and is_refusal(said):
        outcome = Outcome.REFUSED
    score = _score(reply, prompt.value, chat=chat) if outcome is Outcome.HIT else None
    printed = reply.text or reply.refusal or ""
    return Answer(outcome, score, printed, reply.seconds, _details(reply, counting.expected(own)))


def _window_ended(reply: Reply, most: int) -> bool:
    """Whether the answer was cut though it had not used up what it was allowed."""
    made = reply.completion_tokens
    return reply.finish == "length" and made is not None and made < most


def _score(reply: Reply, value: str, *, chat: bool) -> float | None:
    """The log-probability of the tokens in which the value was said, None where not told.

    In chat, of those that hold some of it; a base answer begins with it, and with white space
    that belongs to it.
    """
    start = "".join(token.text for token in reply.tokens).find(value)
    if start < 0:
        return None
    first = start if chat else 0
    total, at = 0.0, 0
    for token in reply.tokens:
        if at < start + len(value) and at + len(token.text) > first:
            total += token.log_probability
        at += len(token.text)
    return total


def _details(reply: Reply, expected: int) -> str:
    """What is kept beside the answer; numbers to four places."""
    kept: dict[str, object] = {
        "prompt_tokens": reply.prompt_tokens,
        "expected_prompt_tokens": expected,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
        "finish_reason": reply.finish or None,
    }
    if reply.tokens:
        kept["tokens"] = [
            [each.text, _short(each.log_probability), {t: _short(p) for t, p in each.top}]
            for each in reply.tokens
        ]
    return json.dumps({name: value for name, value in kept.items() if value is not None})


def _short(number: float) -> float | str:
    return round(number, 4) if number > float("-inf") else "-inf"


_MARK = "<what the user says>"
_MORE = 1
"""Tokens of a base answer beyond the value: what follows a number says whether it has ended."""
_VAGUE_MORE = 8
"""The same where the value's tokens are only estimated."""
SALT_ROOM = 20
"""Tokens kept free for the salt: twelve digits, the words around them, and some to spare."""


@short
@dataclass(frozen=True, slots=True)
class EndpointSubject:
    """Asks `model` through `dialect`; safe between threads.

    `counting` translates our tokens into the server's. `window` is the most tokens of prompt
    and answer as the server states it, None when it does not. `salt` puts a random first line
    before every prompt, so that no cache helps.
    """

    model: str
    dialect: ApiDialect
    tokens: Tokens
    counting: Counting = field(default_factory=Counting)
    window: int | None = None
    salt: bool = False

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
        body = self.dialect.body(self.model, content, most)
        expected = self.counting.expected(own)
        try:
            reply = client.ask(self.dialect.api, body, expected + most)
        except PromptTooLongError as error:
            return Answer(Outcome.OVERFLOW, None, str(error), time.perf_counter() - begun)
        except RejectedError as error:
            return Answer(Outcome.ERROR, None, str(error), time.perf_counter() - begun)
        return judge(reply, prompt, self.counting, chat=self.chat, most=most, own=own)

    def content(self, prompt: Prompt) -> tuple[str | tuple[int, ...], int]:
        """What is sent for a prompt, and how many of our tokens the server reads for it."""
        line = _salt_line() if self.salt else ""
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


def _salt_line() -> str:
    """A line that was never said before: digits, of which no tokenizer makes more tokens."""
    return f"Copy {randbelow(10**12):012}.\n"
