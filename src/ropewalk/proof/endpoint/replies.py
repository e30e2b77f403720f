"""A server's reply as a value. What comes in is outside data: checked before it is believed.

Completions and chat differ in where the text stands; servers differ in how they give the
log-probabilities of completions (by OpenAI's old lists, or as llama.cpp does by chat's objects).

What the details of kept answers say of the servers that gave them: counts, cuts, cache.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ropewalk.proof.cells import Answer, Outcome, Row
from ropewalk.short import short


class BadReplyError(ValueError):
    """A reply with status 200 that is not what was asked for: garbage, or cut off."""


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
    when it did not). Counts are its `usage`, None where it does not say. `tokens` is empty where
    it gives no log-probabilities. `seconds` is the time from sending to the last byte.
    """

    text: str
    finish: str = ""
    refusal: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: tuple[ScoredToken, ...] = field(default=())
    seconds: float = 0.0


def read_reply(body: str, seconds: float = 0.0) -> Reply:
    """The reply in a body of JSON. Raises BadReplyError for anything that is none."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise BadReplyError(f"the reply is not JSON but begins {body[:60]!r}") from error
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        raise BadReplyError(f"the reply holds no choices but is {body[:60]!r}")
    message = first.get("message")
    holder = message if isinstance(message, dict) else first
    text = holder.get("content" if holder is message else "text")
    if text is not None and not isinstance(text, str):
        raise BadReplyError(f"the reply's text is {str(text)[:60]!r}")
    if text is None and holder is first:
        raise BadReplyError("the reply's first choice has no text")
    refusal = holder.get("refusal")
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    return Reply(
        text=text or "",
        finish=str(first.get("finish_reason") or ""),
        refusal=refusal if isinstance(refusal, str) and refusal else None,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        completion_tokens=_count(usage.get("completion_tokens")),
        tokens=_scored(first.get("logprobs")),
        seconds=seconds,
    )


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
