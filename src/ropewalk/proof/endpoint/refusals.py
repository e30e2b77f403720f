"""What a server says when it does not answer, and what that amounts to.

No list of phrases: servers say the same in too many words. What is read has a meaning of its own:
the status, type and code, the parameter that is named, numbers, and whether a wait is asked for.
Where that is not enough, `ropewalk.proof.endpoint.limits` finds out by experiment whether a refusal
is about length.

Bodies come in many shapes (OpenAI's `error` object, its own fields at the top, `detail` as a text
or as a list with `loc` and `msg`, a plain text); all of them are walked alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ropewalk.short import short

_CODES = frozenset({"type", "code", "error_type", "error_code", "errorcode", "reason", "status"})
_PARAMS = frozenset({"param", "parameter", "field", "loc"})
_RATE = re.compile(
    r"rate.?limit|rate.?exceed|throttl|\bquota|too.?many.?requests|\b[tr]p[msdh]\b"
    r"|(?:per|each|every|/)[ _-]?(?:min(?:ute)?|sec(?:ond)?|hour|day|month)s?\b"
    r"|\ban? (?:minute|hour|day|month)\b",
    re.I,
)
_QUOTA = re.compile(r"insufficient.?(quota|balance|credit|funds)", re.I)
_LENGTHY = re.compile(
    r"(context|prompt|input|sequence|request|token|string|message|content)s?.*"
    r"(length|long|large|size|window|exceed|limit|overflow|max)"
    r"|(exceed|long|large|size|max|overflow).*(context|prompt|input|sequence|length|request)",
    re.I,
)
"""Of a type or a code, which is a name and no sentence."""
_NUMBER = re.compile(r"(?<![\w.,])(\d{1,3}(?:[,._'\u202f]\d{3})+|\d+)(k\b)?(?!\d|[.,]\d)", re.I)
_FEWEST = 64
"""Tokens: numbers below say nothing of a window, and prompts below are judged by none."""
_ANSWER = frozenset({"max_tokens", "max_completion_tokens"})

_SENT_AGAIN = frozenset({408, 409, 425, 429, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""What may pass by itself: the server, or what stands before it, is busy or away."""
_STOPS = frozenset({401, 402, 403, 404, 405, 501})


_CONTEXT = re.compile(r"context|prompt|input|length|too.?long", re.I)


class Consequence(StrEnum):
    """What a refusal amounts to."""

    AGAIN = "again"
    """It may pass: send the same request again after a pause."""
    TOO_LONG = "too long"
    """The prompt does not fit, and never will."""
    TOO_MUCH = "too much"
    """One such request is more than the server's rate lets through in a minute."""
    PARAMETER = "parameter"
    """A parameter is not taken as it was given."""
    STOP = "stop"
    """Every request would end like this: no key, no such model, no such address."""
    REJECTED = "rejected"
    """This request is not taken, and the server does not say why in a way that is known."""


@short
@dataclass(frozen=True, slots=True)
class Refusal:
    """What came back in place of an answer.

    `said` is every text of the body on one line, `codes` are its types and codes, `params` the
    parameters that it names. `waits`: whether it asks to come back later. `midway`: the server
    broke off while it answered.
    """

    status: int
    said: str
    codes: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    waits: bool = False
    midway: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """The whole numbers that it says; 128k stands for 128,000 and for 131,072."""
        found = []
        for match in _NUMBER.finditer(self.said):
            number = int(re.sub(r"\D", "", match[1])[:15])
            found += [number * 1000, number * 1024] if match[2] else [number]
        return tuple(found)


@short
@dataclass(frozen=True, slots=True)
class Sent:
    """What a request held: about `tokens` of prompt (within `slack`), at most `most` of answer."""

    tokens: int
    most: int = 1
    slack: int = 0


def read_refusal(status: int, body: str, *, waits: bool = False, midway: bool = False) -> Refusal:
    """The refusal in a body of any shape."""
    try:
        document: object = json.loads(body)
    except ValueError:
        document = body
    return refusal_of(status, document, waits=waits, midway=midway)


def refusal_of(
    status: int, document: object, *, waits: bool = False, midway: bool = False
) -> Refusal:
    """The refusal in a body that was read as JSON."""
    texts, codes, params = [], [], []
    for name, text in _texts(document):
        if name in _CODES:
            codes.append(text)
        elif name in _PARAMS:
            params.append(text)
        else:
            texts.append(text)
    codes = [code for code in codes if not code.isdecimal()]
    said = " ".join(" ".join(dict.fromkeys((*texts, *codes))).split())
    return Refusal(status, said, tuple(codes), tuple(dict.fromkeys(params)), waits, midway)


def _texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text and number of a document with the name that it stands under."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, str(key).lower())
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, name)
    elif isinstance(value, str) and value.strip().startswith("{"):
        # A gateway passes the words of the server behind it on as they were.
        try:
            yield from _texts(json.loads(value), name)
        except ValueError:
            yield name, value
    elif isinstance(value, str) and value.strip():
        yield name, value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, str(value)


def is_rate(found: Refusal) -> bool:
    """Whether a refusal is about how much may be sent in a time."""
    if found.status == 429:
        # "token_limit_exceeded" may be either; what names the context is no rate.
        return not any(_CONTEXT.search(code) for code in found.codes)
    if found.status >= 500:
        return any(_RATE.search(code) for code in found.codes)
    return found.waits or bool(_RATE.search(found.said))


def _is_lengthy(code: str) -> bool:
    return bool(_LENGTHY.search(code)) and not _RATE.search(code)


def is_length(found: Refusal, sent: Sent) -> bool:
    """Whether a refusal says by a code, or by its numbers, that the prompt is too long.

    Numbers say so where one is what was sent, with or without the answer's tokens, and another is
    smaller than both together: nothing else comes out as the prompt's own length.
    """
    if not _ANSWER & set(found.params) and any(_is_lengthy(code) for code in found.codes):
        return True
    whole = sent.tokens + sent.most
    numbers = [number for number in found.numbers if number not in (sent.most, found.status)]
    mine = {number for number in numbers if _is_sent(number, sent)}
    return bool(mine) and any(_FEWEST <= other < whole for other in numbers if other not in mine)


def _is_sent(number: int, sent: Sent) -> bool:
    """Whether a number can be that of a request's tokens."""
    if sent.tokens < _FEWEST:
        return False
    return min(abs(number - sent.tokens), abs(number - sent.tokens - sent.most)) <= sent.slack


def named_parameters(found: Refusal, own: Mapping[str, object]) -> tuple[str, ...]:
    """Those of our own parameters that a refusal names; "stream" also where it was not sent."""
    droppable = {name for name in own if name not in ("model", "prompt", "messages")} | {"stream"}
    told = [name for name in found.params if name in droppable]
    if not told and {"prompt", "messages"} & set(found.params):
        return ()
    words = set(re.findall(r"\w+", found.said.lower()))
    return tuple(dict.fromkeys((*told, *sorted(droppable & words))))


def judge_refusal(
    found: Refusal, sent: Sent, own: Mapping[str, object] | None = None
) -> Consequence:
    """What to do about a refusal of a request that held `sent`; `own` are its parameters."""
    status = found.status
    if _QUOTA.search(found.said) and status in (402, 403, 429):
        return Consequence.STOP
    if is_rate(found):
        return Consequence.TOO_MUCH if _more_than_rate(found, sent) else Consequence.AGAIN
    if status in (401, 402):
        return Consequence.STOP
    if is_length(found, sent):
        return Consequence.TOO_LONG
    if status in (400, 422, 500) and named_parameters(found, own or {}):
        return Consequence.PARAMETER
    if status in _STOPS:
        return Consequence.STOP
    if status in _SENT_AGAIN or found.midway:
        return Consequence.AGAIN
    return Consequence.REJECTED


def _more_than_rate(found: Refusal, sent: Sent) -> bool:
    """Whether one request is more than the rate of a whole minute."""
    return any(
        _is_sent(asked, sent) and any(0 < limit < asked for limit in found.numbers)
        for asked in found.numbers
    )
