"""A server's reply as a value, and what the details of kept replies say of their servers.

What comes in is outside data: checked before it is believed. Completions and chat differ in where
the text stands; servers differ in how they give the log-probabilities of completions (by OpenAI's
old lists, or as llama.cpp does by chat's objects).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ropewalk.proof.cells import Answer, Outcome, Row
from ropewalk.proof.endpoint.refusals import Refusal, refusal_of
from ropewalk.proof.thinking import is_thinking
from ropewalk.short import short


class BadReplyError(ValueError):
    """A reply with status 200 that is not what was asked for: garbage, or cut off."""


class ErrorInsideError(ValueError):
    """A reply with status 200 that holds an error in place of an answer, or behind half of one."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.said)
        self.refusal = refusal


@short
@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the answer, its natural log-probability, and the likeliest ones at its place."""

    text: str
    log_probability: float
    top: tuple[tuple[str, float], ...] = ()


@short
@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered.

    `finish` is its finish_reason ("" when it gives none), `refusal` what it declined with (None
    when it did not), `thought` what it hands over as thinking, apart from the text. Counts are its
    `usage`, None where it does not say. `tokens` is empty where it gives no log-probabilities.
    `seconds` is the time from sending to the last byte.
    """

    text: str
    finish: str = ""
    refusal: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: tuple[ScoredToken, ...] = field(default=())
    seconds: float = 0.0
    thought: str = ""


def read_reply(body: str, seconds: float = 0.0) -> Reply:
    """The reply in a body of JSON, or of events with JSON in them.

    Raises BadReplyError for anything that is none, ErrorInsideError for an error with status 200.
    """
    if body.lstrip()[:6] in ("data: ", "data:{", "event:") or body.lstrip().startswith(":"):
        return _read(_joined(body), seconds)
    try:
        document = json.loads(body)
    except ValueError as error:
        raise BadReplyError(f"the reply is not JSON but begins {body[:60]!r}") from error
    return _read(document, seconds)


def _read(document: Any, seconds: float) -> Reply:
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        if isinstance(document, dict) and (said := _error_of(document)):
            raise ErrorInsideError(refusal_of(_status(said), said))
        raise BadReplyError(f"the reply holds no choices but is {str(document)[:60]!r}")
    if (said := _error_of(first) or _error_of(document)) or first.get("finish_reason") == "error":
        said = said or "the server broke off with finish_reason error"
        raise ErrorInsideError(refusal_of(_status(said), said, midway=True))
    message = first.get("message")
    holder = message if isinstance(message, dict) else first
    given = holder.get("content" if holder is message else "text")
    if given is None and holder is first:
        raise BadReplyError("the reply's first choice has no text")
    text, thought = _texts_of(given)
    refusal = holder.get("refusal")
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    thoughts = [holder.get(name) for name in ("reasoning_content", "reasoning", "thinking")]
    return Reply(
        text=text,
        finish=str(first.get("finish_reason") or ""),
        refusal=refusal if isinstance(refusal, str) and refusal else None,
        # No prompt has none.
        prompt_tokens=_count(usage.get("prompt_tokens")) or None,
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        completion_tokens=_count(usage.get("completion_tokens")),
        tokens=_scored(first.get("logprobs")),
        seconds=seconds,
        thought=thought or next((t for t in thoughts if isinstance(t, str) and t), ""),
    )


def _error_of(holder: Mapping[str, Any]) -> object:
    """The error that stands in a place of a reply, None where there is none."""
    found = holder.get("error") or holder.get("errors")
    if found is None and holder.get("object") == "error":
        found = dict(holder)
    return found or None


def _status(said: object) -> int:
    """The status that an error with status 200 names, else 200."""
    for name in ("code", "status", "status_code"):
        value = said.get(name) if isinstance(said, Mapping) else None
        digits = str(value) if isinstance(value, int | str) else ""
        if digits.isdecimal() and 400 <= int(digits[:4]) < 600:
            return int(digits)
    return 200


def _texts_of(given: object) -> tuple[str, str]:
    """The text of an answer, and its thinking: content as a text, or as a list of blocks.

    Raises BadReplyError for what is neither.
    """
    if given is None or isinstance(given, str):
        return given or "", ""
    if not isinstance(given, list):
        raise BadReplyError(f"the reply's text is {str(given)[:60]!r}")
    text, thought = "", ""
    for block in given:
        inner, deeper = _block(block)
        text, thought = text + inner, thought + deeper
    return text, thought


def _block(block: object) -> tuple[str, str]:
    if isinstance(block, str):
        return block, ""
    if not isinstance(block, Mapping):
        raise BadReplyError(f"a block of the reply is {str(block)[:60]!r}")
    kind = str(block.get("type") or "text")
    held = next(
        (block[name] for name in ("text", "content", "value", kind, "thinking") if block.get(name)),
        "",
    )
    if isinstance(held, Mapping):
        held = [held]
    text, thought = _texts_of(held)
    if "text" in kind:
        return text, thought
    return ("", text + thought) if is_thinking(kind) else ("", "")


def _joined(body: str) -> dict[str, Any]:
    """The pieces of a streamed reply as one document. Raises BadReplyError, ErrorInsideError."""
    whole: dict[str, Any] = {}
    first: dict[str, Any] = {}
    text: dict[str, str] = {}
    for line in body.splitlines():
        said = line.removeprefix("data:").strip()
        if not line.startswith("data:") or said in ("", "[DONE]"):
            continue
        try:
            event = json.loads(said)
        except ValueError as error:
            raise BadReplyError(f"an event is not JSON but begins {said[:60]!r}") from error
        if not isinstance(event, dict):
            raise BadReplyError(f"an event is {said[:60]!r}")
        choices = event.pop("choices", None) or [{}]
        piece = choices[0] if isinstance(choices[0], dict) else {}
        delta = piece.pop("delta", None) or piece.pop("message", None) or piece
        for name in ("content", "text", "reasoning_content", "reasoning", "refusal"):
            if isinstance(delta.get(name), str | list):
                text[name] = text.get(name, "") + _texts_of(delta[name])[0]
        first |= {name: each for name, each in piece.items() if each is not None and name != "text"}
        whole |= {name: each for name, each in event.items() if each is not None}
    if not text and "error" not in whole and not first:
        raise BadReplyError(f"the events of the reply hold no text: {body[:60]!r}")
    if "text" in text:
        return whole | {"choices": [first | {"text": text["text"]}]}
    if not first and "error" in whole:
        return whole
    return whole | {"choices": [first | {"message": text}]}


def _count(value: object) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if right and isinstance(value, int) else None


def _scored(given: object) -> tuple[ScoredToken, ...]:
    """Tokens of either form; none of them when the lists do not belong together."""
    if not isinstance(given, dict):
        return ()
    content = given.get("content")
    try:
        if isinstance(content, list):
            return tuple(_scored_object(each) for each in content)
        return _scored_lists(given)
    except (KeyError, TypeError, ValueError):
        return ()


def _scored_object(each: Mapping[str, Any]) -> ScoredToken:
    top = each.get("top_logprobs") or ()
    return ScoredToken(
        str(each["token"]),
        _finite(each["logprob"]),
        tuple((str(one["token"]), _finite(one["logprob"])) for one in top),
    )


def _scored_lists(given: Mapping[str, Any]) -> tuple[ScoredToken, ...]:
    texts: Sequence[Any] = given.get("tokens") or ()
    scores: Sequence[Any] = given.get("token_logprobs") or ()
    tops: Sequence[Any] = given.get("top_logprobs") or [None] * len(texts)
    return tuple(
        ScoredToken(
            str(text),
            _finite(score),
            tuple((str(name), _finite(value)) for name, value in (top or {}).items()),
        )
        for text, score, top in zip(texts, scores, tops, strict=True)
    )


def _finite(value: Any) -> float:
    number = float(value)
    if math.isnan(number):
        raise ValueError("a log-probability is not a number")
    return number


def counts_of(answer: Answer) -> tuple[int | None, int | None]:
    """Prompt tokens of an answer and how many of them came from a cache, where the server said."""
    if not answer.details:
        return None, None
    details = json.loads(answer.details)
    read, cached = details.get("prompt_tokens"), details.get("cached_tokens")
    return (
        read if isinstance(read, int) else None,
        cached if isinstance(cached, int) else None,
    )


def cached_share(rows: Iterable[Row]) -> tuple[int, int]:
    """Prompt tokens from caches, and all prompt tokens, of the answers that say both."""
    pairs = [counts_of(row.answer) for row in rows]
    told = [(read, cached) for read, cached in pairs if read is not None and cached is not None]
    return sum(cached for _, cached in told), sum(read for read, _ in told)


def served_facts(rows: Sequence[Row]) -> dict[str, str]:
    """Lines about the servers for a report; none for a model that was run here."""
    answered = [row for row in rows if row.answer.details]
    if not answered:
        return {}
    facts = {}
    cached, read = cached_share(answered)
    if read:
        facts["server's cache"] = (
            f"{cached / read:.1%} of {read:,} prompt tokens were in it ({cached:,})"
        )
    else:
        facts["server's cache"] = "the server does not say what was in it"
    silent = sum(counts_of(row.answer)[0] is None for row in answered)
    if silent:
        facts["not counted"] = (
            f"{silent} of {len(answered)} replies do not say how many tokens were read: a cut "
            "prompt among them would not be seen"
        )
    cut = [counts_of(r.answer)[0] or 0 for r in rows if r.answer.outcome is Outcome.TRUNCATED]
    if cut:
        facts["cut prompts"] = f"{len(cut)}, of which the server read {max(cut):,} tokens at most"
    return facts
