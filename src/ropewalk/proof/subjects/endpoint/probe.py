"""What a server is, and which words it takes: asked once before a run, with hardly any tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.errors import EndpointError, UsageError
from ropewalk.proof.subjects.endpoint.client import (
    Client,
    NoSuchPlaceError,
    PromptTooLongError,
    RejectedError,
    ServerGoneError,
)
from ropewalk.proof.subjects.endpoint.replies import Reply
from ropewalk.short import short

COMPLETIONS, CHAT = "completions", "chat/completions"
TOP = 5
"""Log-probabilities asked for at each place; the most that OpenAI's completions give."""

_TRIES = 4
"""Some servers answer 500 to what they do not know: not asked for long."""
_TOLERANCE = 4


@short
@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server takes. `ids`: token ids as a prompt; `limit`: how it calls the answer's most
    tokens; `logprobs`: how many it gives at each place, 0 for none; `seed`: whether it takes one.
    """

    api: str
    ids: bool = False
    logprobs: int = TOP
    seed: bool = True
    limit: str = "max_tokens"

    def body(self, model: str, content: str | Sequence[int], most: int) -> dict[str, Any]:
        """A request for a greedy answer of at most `most` tokens.

        It is not pinned to one of llama.cpp's slots (`id_slot`): the server finds the slot whose
        cache fits by itself, and requests of two clients that are pinned to the same slot were
        seen to get answers to each other's prompts.
        """
        body: dict[str, Any] = {"model": model, self.limit: most, "temperature": 0}
        if self.seed:
            body["seed"] = 0
        if self.api == CHAT:
            body["messages"] = [{"role": "user", "content": content}]
            if self.logprobs:
                body |= {"logprobs": True, "top_logprobs": self.logprobs}
        else:
            body["prompt"] = content if isinstance(content, str) else list(content)
            if self.logprobs:
                body["logprobs"] = self.logprobs
        return body

    def words(self) -> str:
        """The dialect for a report."""
        prompt = "token ids" if self.ids else "text"
        lacking = [
            name
            for name, has in (("log-probabilities", self.logprobs), ("seed", self.seed))
            if not has
        ]
        without = f", without {' and '.join(lacking)}" if lacking else ""
        return f"{self.api}, prompts as {'messages' if self.api == CHAT else prompt}{without}"


@short
@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself; None and "" where it does not.

    `window` is the most tokens of prompt and answer, said under the name `window_name`;
    `slots` are llama.cpp's: how many requests it answers at once, each with a cache of its own.
    """

    kind: str = ""
    models: tuple[str, ...] = ()
    window: int | None = None
    window_name: str = ""
    trained: int | None = None
    slots: int | None = None


def look(client: Client, model: str) -> ServerFacts:
    """Ask a server what it is. Raises EndpointError when nothing answers at its address."""
    try:
        listed = client.get("models")
        props = client.get("/props")
    except ServerGoneError as error:
        raise EndpointError(
            f"{error}; start the server, or give its address as --base-url"
        ) from error
    data = listed.get("data") if isinstance(listed, dict) else None
    entries = [each for each in data or [] if isinstance(each, dict)]
    models = tuple(str(each["id"]) for each in entries if each.get("id"))
    mine = next((each for each in entries if each.get("id") == model), {})
    if not mine and len(entries) == 1:
        mine = entries[0]
    props = props if isinstance(props, dict) else {}
    settings, meta = props.get("default_generation_settings"), mine.get("meta")
    slots = _whole(props.get("total_slots"))
    window, name = _whole(mine.get("max_model_len")), "max_model_len"
    if isinstance(settings, dict) and _whole(settings.get("n_ctx")):
        window, name = _whole(settings.get("n_ctx")), "n_ctx"
    return ServerFacts(
        kind="llama.cpp" if slots else str(mine.get("owned_by") or ""),
        models=models,
        window=window,
        window_name=name if window else "",
        trained=_whole(meta.get("n_ctx_train")) if isinstance(meta, dict) else None,
        slots=slots,
    )


def choose_model(asked: str, facts: ServerFacts, url: str) -> str:
    """The model's name; where none was asked for, the only one there is."""
    if asked:
        return asked
    if len(facts.models) == 1:
        return facts.models[0]
    known = ", ".join(facts.models[:8]) or "no model"
    raise UsageError(f"say which model of {url}, like openai:NAME; it lists {known}")


def find_dialect(
    client: Client, model: str, apis: Sequence[str], text: str, ids: Sequence[int] | None
) -> tuple[Dialect, Reply]:
    """The richest way of asking that the server takes, and what it replied to `text`.

    `ids` are the text's by the server's own tokenizer, None where that is not at hand. Raises
    EndpointError when no way is taken, with the server's last words.
    """
    last: Exception | None = None
    for dialect in _candidates(apis, ids is not None):
        content: str | Sequence[int] = ids if dialect.ids and ids is not None else text
        try:
            reply = client.ask(dialect.api, dialect.body(model, content, 1), len(text), _TRIES)
        except (NoSuchPlaceError, RejectedError, PromptTooLongError) as error:
            last = error
            continue
        except ServerGoneError as error:
            raise EndpointError(f"{error}; start the server, and the same command goes on") from (
                error
            )
        counted = reply.prompt_tokens
        # One that takes the ids for text counts them as something else.
        if not dialect.ids or counted is None or abs(counted - len(ids or ())) <= _TOLERANCE:
            return dialect, reply
    if isinstance(last, EndpointError):
        raise last
    raise EndpointError(f"{client.url} takes no request as it was asked: {last}") from last


def _candidates(apis: Sequence[str], with_ids: bool) -> Iterator[Dialect]:
    for api in apis:
        forms = (True, False) if with_ids and api == COMPLETIONS else (False,)
        for ids in forms:
            yield Dialect(api, ids)
        if api == CHAT:
            yield Dialect(api, limit="max_completion_tokens")
        for ids in forms:
            yield Dialect(api, ids, logprobs=0)
        for ids in forms:
            yield Dialect(api, ids, logprobs=0, seed=False)
        if api == CHAT:
            yield Dialect(api, logprobs=0, limit="max_completion_tokens")


def _whole(value: object) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if right and isinstance(value, int) else None
