"""A server met for the first time: what it is, which words it takes, and how it counts.

In the order in which things can go wrong: the address first, then the ways of asking, then counts.
What is found out in passing and should be known (that completions are wrapped in a chat template,
that counts leave out what was cached) is told as remarks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ropewalk.errors import EndpointError
from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.proof.endpoint.client import (
    Client,
    PromptTooLongError,
    RejectedError,
    ServerGoneError,
    ThrottledError,
)
from ropewalk.proof.endpoint.counting import PROBES, Counting, UnlikelyCountError, calibrate
from ropewalk.proof.endpoint.cuts import CutPart, lost_part
from ropewalk.proof.endpoint.dialect import CHAT, COMPLETIONS, ApiDialect, asked, find_dialect
from ropewalk.proof.endpoint.plain_text import beginning, sentences
from ropewalk.proof.endpoint.probe import ServerFacts, choose_model, look
from ropewalk.proof.endpoint.refusals import Sent
from ropewalk.proof.endpoint.replies import Reply
from ropewalk.proof.endpoint.subject import APIS, CONFUSED, EndpointSettings, EndpointSubject
from ropewalk.proof.endpoint.tokenizers import Estimate, ServerTokenizer
from ropewalk.proof.tokens import Tokens
from ropewalk.short import short

_TEXT = "x"
_WRAPPED = 4, 6
"""Tokens beyond those of the shortest text that no tokenizer adds by itself: where it is the
server's own, and where it is estimated."""


@short
@dataclass(frozen=True, slots=True)
class Meeting:
    """A server's `facts`, who asks it, what counts our tokens, and what else there is to say."""

    facts: ServerFacts
    subject: EndpointSubject
    counted_by: str
    remarks: tuple[str, ...] = ()


def meet(
    name: str,
    given: EndpointSettings,
    clients: Sequence[Client],
    *,
    chat: bool = False,
    answer_tokens: int,
    told: Callable[[str], None] = lambda _: None,
) -> Meeting:
    """Find out what the first server is, how it is asked and how it counts, and by what.

    The others must be there and take the same. Raises EndpointError where it cannot be asked, and
    UsageError where it has several models and none is named.
    """
    first = clients[0]
    facts = look(first, name)
    model = choose_model(name, facts, first.url)
    tokens, counted_by, exact = _tokens(given, first, model)
    apis = (CHAT,) if chat else APIS[given.api]
    remarks: list[str] = []
    dialect = _dialect(first, model, apis, tokens, exact, remarks)
    for other in clients[1:]:
        look(other, name)
    subject = EndpointSubject(
        model, dialect, tokens, window=facts.window, answer_tokens=answer_tokens, told=told
    )
    subject.counting, text = _count(first, subject, exact, remarks)
    subject.limits.answered(first.url, subject.counting.least(max(PROBES[:2])))
    subject.salt = given.salt or _confused(first, subject, text, remarks)
    return Meeting(facts, subject, counted_by, tuple(remarks))


def _dialect(
    client: Client,
    model: str,
    apis: Sequence[str],
    tokens: Tokens,
    exact: bool,
    remarks: list[str],
) -> ApiDialect:
    """The way of asking; chat where completions are chat in disguise."""
    ids = tokens.encode(_TEXT) if exact else None
    dialect, reply = find_dialect(client, model, apis, _TEXT, ids)
    added = (reply.prompt_tokens or 0) - len(ids or _TEXT)
    if dialect.api == COMPLETIONS and added > _WRAPPED[not exact]:
        said = f"{client.url} wraps completions in a chat template ({added} tokens more than sent)"
        try:
            dialect, _ = find_dialect(client, model, [a for a in apis if a == CHAT], _TEXT, None)
            said += ": asked through chat"
        except EndpointError:
            said += ": a prompt that should be gone on with is answered; --api chat may do"
        remarks.append(said)
    missing = [*sorted(dialect.without), *["a limit of the answer"] * (not dialect.limit)]
    if missing:
        remarks.append(f"{client.url} does not take {' and '.join(missing)}: left out")
    return dialect


def _tokens(given: EndpointSettings, client: Client, model: str) -> tuple[Tokens, str, bool]:
    """What counts our tokens, in words, and whether it is meant to be the server's own."""
    if given.tokenizer is not None:
        return Tokens(load_tokenizer(given.tokenizer)), f"tokenizer of {given.tokenizer}", True
    found = ServerTokenizer.find(client, model)
    if found is not None:
        return Tokens(found), "the server's /tokenize", True
    return Tokens(Estimate()), "no tokenizer (--tokenizer counts exactly)", False


def _probe(client: Client, subject: EndpointSubject, text: str) -> tuple[int, Reply]:
    """Our tokens of a text, and the reply to it."""
    tokens, dialect = subject.tokens, subject.dialect
    chat = dialect.api == CHAT
    ids = tokens.encode(tokens.chat(text), special=False) if chat else tokens.encode(text)
    content = ids if dialect.ids else text
    found, reply = asked(client, subject.model, dialect, content, Sent(len(ids)))
    subject.dialect = found
    return len(ids), reply


def _count(
    client: Client, subject: EndpointSubject, exact: bool, remarks: list[str]
) -> tuple[Counting, str]:
    """Calibrate by three probes of plain text, or two where the window does not hold the third.

    Also the second of them.

    Raises EndpointError when they are not answered, or their counts cannot be.
    """
    own: list[int] = []
    counted: list[int | None] = []
    given = sentences(subject.tokens, max(PROBES))
    texts = [beginning(given, size, subject.tokens) for size in PROBES]
    for text in texts:
        try:
            ours, reply = _probe(client, subject, text)
        except (RejectedError, ServerGoneError, PromptTooLongError, ThrottledError) as error:
            if len(own) > 1 and not isinstance(error, ServerGoneError):
                break
            raise EndpointError(
                f"{client.url} did not answer a probe of {len(text):,} characters: {error}"
            ) from error
        own.append(ours)
        counted.append(reply.prompt_tokens)
    try:
        return calibrate(own, counted, exact=exact, url=client.url), texts[1]
    except UnlikelyCountError:
        # It may be the counts that are wrong: then nothing of a text is lost.
        if lost_part(lambda n, at: subject.finds(client, n, at), own[-1], own[-1]) != CutPart.NONE:
            raise
    remarks.append(
        f"{client.url} counts {counted[-1]} tokens for a text of {own[-1]} and has read all of it: "
        "its counts are not believed"
    )
    return Counting(exact=exact, told=False), texts[1]


def _confused(client: Client, subject: EndpointSubject, text: str, remarks: list[str]) -> bool:
    """Whether the same text is counted as less the second time, without a word of a cache."""
    counting = subject.counting
    if not counting.told or counting.cut_at is not None:
        return False
    try:
        own, reply = _probe(client, subject, text)
    except (RejectedError, ServerGoneError, PromptTooLongError, ThrottledError) as error:
        raise EndpointError(f"{client.url} did not answer a probe again: {error}") from error
    if not counting.seems_cut(own, reply.prompt_tokens, reply.cached_tokens):
        if reply.cached_tokens:
            apart = (reply.prompt_tokens or 0) < counting.least(own)
            subject.counting = replace(counting, apart=apart)
        return False
    remarks.append(CONFUSED.format(url=client.url))
    return True
