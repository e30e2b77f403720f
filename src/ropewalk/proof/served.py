"""A model at a server, as a proof asks it: what `local` is for a model that is run here.

In the order in which things can go wrong: the addresses are tried first, then the ways of asking,
then how the server counts; only then are prompts laid out, and the run folder taken.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from ropewalk.errors import EndpointError, UsageError
from ropewalk.listener import Listener
from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.proof.endpoint.client import (
    Client,
    PromptTooLongError,
    RejectedError,
    ServerGoneError,
)
from ropewalk.proof.endpoint.policy import RequestGate
from ropewalk.proof.endpoint.probe import (
    CHAT,
    PROBES,
    ApiDialect,
    Counting,
    ServerFacts,
    calibrate,
    choose_model,
    find_dialect,
    look,
)
from ropewalk.proof.endpoint.subject import (
    APIS,
    PREFIX,
    EndpointSettings,
    EndpointSubject,
    ServedPrompts,
)
from ropewalk.proof.endpoint.tokenizers import Estimate, ServerTokenizer
from ropewalk.proof.endpoint.work import Served, Server
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.plan import Make
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.subject import OpenedModel, Subject
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.spec import Length, PositionSpec
from ropewalk.short import short_with

AT_ONCE = 4
"""Requests under way at a server that does not say how many it takes."""


class NamedServer:
    """A model that begins with "openai:", and where it is to be asked; nothing was sent yet.

    Raises UsageError for what a server cannot be told.
    """

    def __init__(self, settings: ProofSettings) -> None:
        self.settings = settings
        self.asked_as: tuple[str, ...] = ()
        self._given = _check(settings)

    def opened(self, tell: Listener) -> Iterator[ServedModel]:
        """Find out what the servers are; every request ends with the proof."""
        given, settings = self._given, self.settings
        gate = RequestGate(given.requests_per_minute, given.tokens_per_minute)
        clients = tuple(Client(url, gate, timeout=given.timeout) for url in given.base_urls)
        try:
            tell.say(f"asking {clients[0].url} what it is")
            name = settings.model.removeprefix(PREFIX)
            facts, subject, counted_by = _meet(name, given, clients, settings.chat)
            at_once = given.concurrency or facts.slots or AT_ONCE
            servers = [Server(client, at_once) for client in clients]
            spec = _spec(facts)
            yield ServedModel(
                asked=Served(subject, servers, gate, tell.note),
                tokens=subject.tokens,
                spec=spec,
                facts=_server_facts(clients, facts, subject, counted_by),
                title=subject.model.rpartition("/")[2],
                chat=subject.chat,
                salted=subject.salt,
                trained=spec.trained,
            )
        finally:
            gate.stop.set()
            for client in clients:
                client.close()


@short_with("title", "facts")
@dataclass(slots=True, kw_only=True)
class ServedModel(OpenedModel):
    """A model at servers that were met; lengths are in their tokens.

    What prompts share is the server's to cache, and with NONE it may do so as well. A server's
    window is how it was started: no guess at training follows from it.
    """

    asked: Served
    whose: str = "at this server"
    no_branches: str = "what a server has read cannot be taken apart from here"

    def own(self, length: int) -> int:
        """Our tokens of a prompt of `length` of the server's."""
        return self.asked.subject.counting.own(length) - self.asked.subject.salted

    def least(self, own: int) -> int:
        """The server's tokens that hold `own` of ours, and the salt."""
        return self.asked.subject.counting.expected(own + self.asked.subject.salted) + 1

    def laid(self, make: Make) -> Make:
        """Lays out by the server's lengths."""
        return ServedPrompts(make, self.asked.subject.counting, self.asked.subject.salted)

    def subject(self, *, shared: bool) -> Subject:  # noqa: ARG002 - what is shared, is in its cache
        """Asks all servers at once, in an order that their caches like."""
        return self.asked


def _check(settings: ProofSettings) -> EndpointSettings:
    if settings.endpoint is None:
        raise UsageError(
            f"{settings.model} is a model at a server: say where, with --base-url, like "
            "http://127.0.0.1:8080/v1"
        )
    if settings.rope is not None:
        raise UsageError("--rope cannot change a model at a server; start the server with it")
    if settings.device != "auto" or settings.dtype != "auto":
        raise UsageError("--device and --dtype are the server's to choose: leave them out")
    if settings.device_map is not None:
        raise UsageError("--device-map is for a model that is run here: leave it out")
    if settings.chat and settings.endpoint.api == "completions":
        raise UsageError("--chat and --api completions exclude each other: leave out one")
    return settings.endpoint


def _meet(
    name: str, given: EndpointSettings, clients: Sequence[Client], chat: bool
) -> tuple[ServerFacts, EndpointSubject, str]:
    """Find out what the first server is, how it is asked and how it counts, and by what.

    The others must be there and take the same.
    """
    first = clients[0]
    facts = look(first, name)
    model = choose_model(name, facts, first.url)
    tokens, counted_by, exact = _tokens(given, first, model)
    apis = (CHAT,) if chat else APIS[given.api]
    text = "x"
    ids = tokens.encode(text) if exact else None
    dialect, _ = find_dialect(first, model, apis, text, ids)
    for other in clients[1:]:
        look(other, name)
    counting = _count(first, model, dialect, tokens, exact)
    subject = EndpointSubject(model, dialect, tokens, counting, facts.window, given.salt)
    return facts, subject, counted_by


def _tokens(given: EndpointSettings, client: Client, model: str) -> tuple[Tokens, str, bool]:
    """What counts our tokens, in words, and whether it is meant to be the server's own."""
    if given.tokenizer is not None:
        return Tokens(load_tokenizer(given.tokenizer)), f"tokenizer of {given.tokenizer}", True
    found = ServerTokenizer.find(client, model)
    if found is not None:
        return Tokens(found), "the server's /tokenize", True
    return Tokens(Estimate()), "no tokenizer (--tokenizer counts exactly)", False


def _count(
    client: Client, model: str, dialect: ApiDialect, tokens: Tokens, exact: bool
) -> Counting:
    """Calibrate by three probes of plain text. Raises EndpointError when they are not answered."""
    own, counted = [], []
    sentences = list(_some_text(tokens, max(PROBES)))
    for size in PROBES:
        text = _cut(sentences, size, tokens)
        chat = dialect.api == CHAT
        ids = tokens.encode(tokens.chat(text), special=False) if chat else tokens.encode(text)
        body = dialect.body(model, ids if dialect.ids else text, 1)
        try:
            reply = client.ask(dialect.api, body, len(ids))
        except (RejectedError, ServerGoneError, PromptTooLongError) as error:
            raise EndpointError(
                f"{client.url} did not answer a probe of about {len(ids)} tokens: {error}"
            ) from error
        own.append(len(ids))
        counted.append(reply.prompt_tokens)
    return calibrate(own, counted, exact=exact, url=client.url)


def _some_text(tokens: Tokens, size: int) -> Sequence[str]:
    """Sentences of at least `size` tokens; always the same, of the kind that haystacks are of."""
    sentences, total = [], 0
    for sentence in GeneratedHaystack(Random("calibration")).sentences():
        sentences.append(sentence)
        total += tokens.inner(sentence)
        if total >= size:
            break
    return sentences


def _cut(sentences: Sequence[str], size: int, tokens: Tokens) -> str:
    """The first sentences that make `size` tokens; each probe begins in its own way.

    A probe that began like the one before would in part come from a cache.
    """
    taken, total = [f"Probe {size}."], 0
    for sentence in sentences:
        if total >= size - 1:
            break
        taken.append(sentence)
        total += tokens.inner(sentence)
    return " ".join(taken)


def _spec(facts: ServerFacts) -> PositionSpec:
    """What the server says of lengths, in the form that all models' lengths have."""
    window = (
        Length(facts.window, f"the server's {facts.window_name}")
        if facts.window
        else Length.unknown("the server does not say")
    )
    trained = (
        Length(facts.trained, "the server's n_ctx_train") if facts.trained else Length.unknown()
    )
    return PositionSpec("served", "server", (), trained, window)


def _server_facts(
    clients: Sequence[Client], facts: ServerFacts, subject: EndpointSubject, counted_by: str
) -> RunFacts:
    """What is known of the servers; their weights are nobody's business here."""
    import openai

    from ropewalk import __version__

    counting = subject.counting
    scale = f"{counting.overhead:.0f} + {counting.ratio:.4f}"
    said = {"window": facts.window, "trained": facts.trained, "slots": facts.slots}
    return RunFacts(
        model=subject.model,
        schedule="the server's own",
        tokenizer=f"{subject.tokens.fingerprint()} {scale}",
        dtype="the server's own precision",
        chat="messages, the server's chat template" if subject.chat else "base prompt",
        device=f"{facts.kind or 'a server'} at {', '.join(client.url for client in clients)}",
        asked_by=subject.dialect.words(),
        server_says=", ".join(f"{k} {v:,}" for k, v in said.items() if v) or "nothing of itself",
        lengths_counted=f"{counting.words()}, by {counted_by}",
        versions=(
            f"ropewalk {__version__}, openai {openai.__version__}, "
            f"Python {platform.python_version()}"
        ),
    )
