"""How a server counts: what it adds to every prompt, and its tokens for each of ours.

Found by three probes (nearly empty, and two lengths) from `usage.prompt_tokens`. Afterwards the
count of every reply is compared with what it must be: a server that cuts a prompt, at whichever
end or in the middle, answers with status 200 and gives itself away by its count alone.

What a server is, and which words it takes: asked once before a run, with hardly any tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.errors import EndpointError, UsageError
from ropewalk.proof.endpoint.client import (
    Client,
    NoSuchPlaceError,
    PromptTooLongError,
    RejectedError,
    ServerGoneError,
)
from ropewalk.proof.endpoint.replies import Reply
from ropewalk.short import short

PROBES = (1, 150, 450)
"""About how many of our tokens the text of each probe has."""

_EXACT = 0.005
"""How far the ratio may lie from 1 before the two tokenizers are not the same."""
_SURE = 4
"""Tokens by which the same tokenizer may differ: special ones, and merges at a seam."""
_VAGUE = 24
_VAGUE_SHARE = 0.06


@short
@dataclass(frozen=True, slots=True)
class Counting:
    """server tokens = overhead + ratio * our tokens.

    `exact`: ours are the server's own. `told`: the server says how many it read; without that
    nothing is known and a cut cannot be seen. `cut_at`: what it counted for a probe that it cut.
    """

    overhead: float = 0.0
    ratio: float = 1.0
    exact: bool = True
    told: bool = True
    cut_at: int | None = None

    def expected(self, own: int) -> int:
        """What the server should count for a prompt of `own` of our tokens."""
        return round(self.overhead + self.ratio * own)

    def own(self, length: int) -> int:
        """How many of our tokens make `length` of the server's, rounded down; at least 0."""
        return max(0, math.floor((length - self.overhead) / self.ratio))

    def least(self, own: int) -> float:
        """The fewest tokens that the server can have counted if it read all of the prompt."""
        expected = self.expected(own)
        return expected - (_SURE if self.exact else _VAGUE + _VAGUE_SHARE * expected)

    def was_cut(self, own: int, counted: int | None, cached: int | None) -> bool:
        """Whether a reply's count says that the server read less than it was sent.

        The count holds what came from a cache, as OpenAI defines it. Where the cache gave more
        than was counted it plainly does not, and both together are the count.
        """
        if counted is None or not self.told:
            return False
        if cached is not None and cached > counted:
            counted += cached
        return counted < self.least(own)

    def words(self) -> str:
        """How lengths were counted, for a report."""
        if not self.told:
            return "not told by the server: lengths are ours, and a cut prompt would not be seen"
        added = f"{self.overhead:+.0f} a prompt"
        if self.exact:
            return f"exact ({added})"
        return f"estimated: {self.ratio:.3f} of the server's for each of ours, {added}"


def calibrate(
    own: Sequence[int], counted: Sequence[int | None], *, exact: bool, url: str
) -> Counting:
    """The counting that explains three probes of `own` tokens that the server counted.

    `exact` says that our tokenizer is meant to be the server's. Raises EndpointError when it is
    and cannot be.
    """
    known = [count for count in counted if count is not None]
    if len(known) < len(own):
        return Counting(exact=exact, told=False)
    ratio = (known[1] - known[0]) / (own[1] - own[0])
    if exact and abs(ratio - 1) <= _EXACT + 1.5 / (own[1] - own[0]):
        found = Counting(float(known[1] - own[1]))
    elif exact:
        raise EndpointError(
            f"{url} counts {known[1]} tokens where the tokenizer counts {own[1]}: it is not the "
            "server's, or the server cuts prompts of that length; give its own as --tokenizer"
        )
    elif ratio < 0.1:
        raise EndpointError(
            f"{url} counts {known[1]} tokens for a text of about {own[1]}: it cuts prompts "
            "already at that length, so nothing can be proved there"
        )
    else:
        found = Counting(known[0] - ratio * own[0], ratio, exact=False)
    if known[2] < found.least(own[2]):
        return Counting(found.overhead, found.ratio, found.exact, cut_at=known[2])
    if not found.exact:
        # The longer the probe, the less its ends matter.
        ratio = (known[2] - known[0]) / (own[2] - own[0])
        found = Counting(known[0] - ratio * own[0], ratio, exact=False)
    return found


COMPLETIONS, CHAT = "completions", "chat/completions"
TOP = 5
"""Log-probabilities asked for at each place; the most that OpenAI's completions give."""

_TRIES = 4
"""Some servers answer 500 to what they do not know: not asked for long."""
_TOLERANCE = 4


@short
@dataclass(frozen=True, slots=True)
class ApiDialect:
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
) -> tuple[ApiDialect, Reply]:
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


def _candidates(apis: Sequence[str], with_ids: bool) -> Iterator[ApiDialect]:
    for api in apis:
        forms = (True, False) if with_ids and api == COMPLETIONS else (False,)
        for ids in forms:
            yield ApiDialect(api, ids)
        if api == CHAT:
            yield ApiDialect(api, limit="max_completion_tokens")
        for ids in forms:
            yield ApiDialect(api, ids, logprobs=0)
        for ids in forms:
            yield ApiDialect(api, ids, logprobs=0, seed=False)
        if api == CHAT:
            yield ApiDialect(api, logprobs=0, limit="max_completion_tokens")


def _whole(value: object) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if right and isinstance(value, int) else None
