"""Which words a server takes: found before a run, changed in it where a parameter is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.errors import EndpointError
from ropewalk.proof.endpoint.client import (
    Client,
    NoSuchPlaceError,
    ParameterRefusedError,
    PromptTooLongError,
    RejectedError,
    ServerGoneError,
    ThrottledError,
)
from ropewalk.proof.endpoint.policy import TRIES
from ropewalk.proof.endpoint.refusals import Sent
from ropewalk.proof.endpoint.replies import Reply
from ropewalk.short import short

COMPLETIONS, CHAT = "completions", "chat/completions"
TOP = 5
"""Log-probabilities asked for at each place; the most that OpenAI's completions give."""
LIMITS = ("max_tokens", "max_completion_tokens")
"""What servers call the most tokens of an answer."""

_TRIES = 4
"""Some servers answer 500 to what they do not know: not asked for long."""
_TOLERANCE = 4
_CHANGES = 8
"""Times that a request is changed before it counts as refused."""


@short
@dataclass(frozen=True, slots=True)
class ApiDialect:
    """What a server takes. `ids`: token ids as a prompt; `limit`: how it calls the answer's most
    tokens, "" where it takes none; `cap`: the most that it allows; `logprobs`: how many it gives at
    each place, 0 for none; `without`: parameters that it refuses; `stream`: it sends its answers
    in pieces only.
    """

    api: str
    ids: bool = False
    logprobs: int = TOP
    limit: str = LIMITS[0]
    cap: int | None = None
    without: frozenset[str] = frozenset()
    stream: bool = False

    def body(self, model: str, content: str | Sequence[int], most: int) -> dict[str, Any]:
        """A request for a greedy answer of at most `most` tokens.

        It is not pinned to one of llama.cpp's slots (`id_slot`): the server finds the slot whose
        cache fits by itself, and requests of two clients that are pinned to the same slot were
        seen to get answers to each other's prompts.
        """
        body: dict[str, Any] = {"model": model, "temperature": 0, "seed": 0}
        if self.limit:
            body[self.limit] = self.most(most)
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.api == CHAT:
            body["messages"] = [{"role": "user", "content": content}]
            if self.logprobs:
                body |= {"logprobs": True, "top_logprobs": self.logprobs}
        else:
            body["prompt"] = content if isinstance(content, str) else list(content)
            if self.logprobs:
                body["logprobs"] = self.logprobs
        return {name: value for name, value in body.items() if name not in self.without}

    def most(self, most: int) -> int:
        """The most tokens that an answer is allowed where `most` are wanted."""
        return most if self.cap is None else min(most, self.cap)

    def adapted(self, names: Sequence[str], numbers: Sequence[int], most: int) -> ApiDialect:
        """Without the parameters of these names, or with a number that the refusal allows.

        `most` was the limit of the answer that was refused. The same dialect where nothing is left
        to change.
        """
        changed = self
        for name in names:
            allowed = max((n for n in numbers if 0 < n < changed.most(most)), default=None)
            if name in LIMITS and allowed is not None:
                changed = replace(changed, cap=allowed)
            elif name in LIMITS:
                other = LIMITS[1] if name == LIMITS[0] else ""
                changed = replace(changed, limit=other)
            elif name in ("logprobs", "top_logprobs"):
                fewer = max((n for n in numbers if 0 < n < changed.logprobs), default=0)
                changed = replace(changed, logprobs=fewer)
            elif name == "stream":
                changed = replace(changed, stream=True)
            else:
                changed = replace(changed, without=changed.without | {name})
        return changed

    def words(self) -> str:
        """The dialect for a report."""
        prompt = "token ids" if self.ids else "text"
        lacking = ["log-probabilities"] * (not self.logprobs) + sorted(self.without)
        lacking += [] if self.limit else ["a limit of the answer"]
        without = f", without {' and '.join(lacking)}" if lacking else ""
        if "temperature" in self.without:
            without += ", so that answers are drawn as the server likes"
        most = f", answers of {self.cap} tokens at most" if self.cap is not None else ""
        pieces = ", answers in pieces" if self.stream else ""
        form = "messages" if self.api == CHAT else prompt
        return f"{self.api}, prompts as {form}{without}{most}{pieces}"


def asked(
    client: Client,
    model: str,
    dialect: ApiDialect,
    content: str | Sequence[int],
    sent: Sent,
    *,
    tries: int = TRIES,
    doubt: bool = False,
) -> tuple[ApiDialect, Reply]:
    """A reply, and the dialect that brought it: parameters that are refused by name are left out.

    Raises as `Client.ask`; RejectedError with the first words where leaving them out is no help.
    """
    first: ParameterRefusedError | None = None
    for _ in range(_CHANGES):
        body = dialect.body(model, content, sent.most)
        try:
            return dialect, client.ask(dialect.api, body, sent, tries, doubt=doubt)
        except ParameterRefusedError as error:
            first = first or error
            changed = dialect.adapted(error.names, error.refusal.numbers, sent.most)
            if changed == dialect:
                break
            dialect = changed
        except RejectedError:
            if first is None:
                raise
            break
    raise RejectedError(str(first), unexplained=True) from first


def find_dialect(
    client: Client, model: str, apis: Sequence[str], text: str, ids: Sequence[int] | None
) -> tuple[ApiDialect, Reply]:
    """The richest way of asking that the server takes, and what it replied to `text`.

    `ids` are the text's by the server's own tokenizer, None where that is not at hand. Raises
    EndpointError when no way is taken, with the server's last words.
    """
    last: Exception | None = None
    gone: set[str] = set()
    for dialect in _candidates(apis, ids is not None):
        if dialect.api in gone:
            continue
        content: str | Sequence[int] = ids if dialect.ids and ids is not None else text
        try:
            found, reply = asked(client, model, dialect, content, Sent(len(text)), tries=_TRIES)
        except NoSuchPlaceError as error:
            last = error
            gone.add(dialect.api)
            continue
        except (RejectedError, PromptTooLongError, ThrottledError) as error:
            last = error
            continue
        except ServerGoneError as error:
            raise EndpointError(f"{error}; start the server, and the same command goes on") from (
                error
            )
        counted = reply.prompt_tokens
        # One that takes the ids for text counts them as something else.
        if not dialect.ids or counted is None or abs(counted - len(ids or ())) <= _TOLERANCE:
            return found, reply
    if isinstance(last, EndpointError):
        raise last
    raise EndpointError(f"{client.url} takes no request as it was asked: {last}") from last


def _candidates(apis: Sequence[str], with_ids: bool) -> Iterator[ApiDialect]:
    """Ways of asking, the richest first: for servers that do not say what they refuse."""
    seed, plain = frozenset({"seed"}), frozenset({"seed", "temperature"})
    for api in apis:
        forms = (True, False) if with_ids and api == COMPLETIONS else (False,)
        for ids in forms:
            yield ApiDialect(api, ids)
        if api == CHAT:
            yield ApiDialect(api, limit=LIMITS[1])
        for without in (frozenset[str](), seed, plain):
            for ids in forms:
                yield ApiDialect(api, ids, logprobs=0, without=without)
        for without in (frozenset[str](), plain):
            if api == CHAT:
                yield ApiDialect(api, logprobs=0, limit=LIMITS[1], without=without)
        for stream in (False, True):
            yield ApiDialect(api, logprobs=0, limit="", without=plain, stream=stream)
