"""One model at one or more servers: what is sent for a prompt, and the answer that comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from secrets import randbelow

from ropewalk.errors import ModelFileError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Prompt
from ropewalk.proof.subjects.endpoint.calibration import Counting
from ropewalk.proof.subjects.endpoint.client import Client, PromptTooLongError, RejectedError
from ropewalk.proof.subjects.endpoint.judge import judge
from ropewalk.proof.subjects.endpoint.probe import CHAT, Dialect
from ropewalk.proof.tokens import Tokens
from ropewalk.short import short

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
    dialect: Dialect
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
