"""A model at a server, as a proof asks it: what `local` is for a model that is run here.

In the order in which things can go wrong: the addresses are tried first, then the ways of asking,
then how the server counts; only then are prompts laid out, and the run folder taken.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.listener import Listener
from ropewalk.proof.cells import Calibrate
from ropewalk.proof.endpoint.client import Client
from ropewalk.proof.endpoint.meeting import Meeting, meet
from ropewalk.proof.endpoint.policy import RequestGate
from ropewalk.proof.endpoint.probe import ServerFacts
from ropewalk.proof.endpoint.subject import (
    PREFIX,
    EndpointSettings,
    ServedPrompts,
)
from ropewalk.proof.endpoint.work import Served, Server
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.plan import Make
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.subject import OpenedModel, Subject
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
            met = meet(
                name,
                given,
                clients,
                chat=settings.chat,
                answer_tokens=settings.answer_tokens,
                told=tell.note,
            )
            for line in met.remarks:
                tell.note(line)
            facts, subject = met.facts, met.subject
            at_once = given.concurrency or facts.slots or AT_ONCE
            servers = [Server(client, at_once) for client in clients]
            spec = _spec(facts)
            yield ServedModel(
                asked=Served(subject, servers, gate, tell.note),
                tokens=subject.tokens,
                spec=spec,
                facts=_server_facts(clients, met),
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
    if settings.calibrate not in (None, Calibrate.OFF):
        raise UsageError(
            f"--calibrate {settings.calibrate} is for a model that is run here: a server shares "
            "beginnings, which change no answer; leave it out"
        )
    if settings.device_map is not None:
        raise UsageError("--device-map is for a model that is run here: leave it out")
    if settings.chat and settings.endpoint.api == "completions":
        raise UsageError("--chat and --api completions exclude each other: leave out one")
    return settings.endpoint


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


def _server_facts(clients: Sequence[Client], met: Meeting) -> RunFacts:
    """What is known of the servers; their weights are nobody's business here."""
    import openai

    from ropewalk import __version__

    facts, subject = met.facts, met.subject
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
        asked_by="; ".join((subject.dialect.words(), *met.remarks)),
        server_says=", ".join(f"{k} {v:,}" for k, v in said.items() if v) or "nothing of itself",
        lengths_counted=f"{counting.words()}, by {met.counted_by}",
        versions=(
            f"ropewalk {__version__}, openai {openai.__version__}, "
            f"Python {platform.python_version()}"
        ),
    )
