"""A whole proof of a model at a server: what `session` is for a model that is run here.

In the order in which things can go wrong: the addresses are tried first, then the ways of asking,
then how the server counts; only then are prompts laid out, and the run folder taken.
"""

from __future__ import annotations

import hashlib
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ropewalk.errors import EndpointError, LengthError, UsageError
from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.prove import session
from ropewalk.prove.cells import Sharing
from ropewalk.prove.documents import DocumentMaker
from ropewalk.prove.endpoint_run import Asking, run_endpoint
from ropewalk.prove.facts import plan_facts, summary_of
from ropewalk.prove.haystack import GeneratedHaystack, read_sentences
from ropewalk.prove.plan import Plan, make_plan
from ropewalk.prove.prompt import PromptMaker
from ropewalk.prove.store import Store
from ropewalk.prove.subjects.endpoint.calibration import PROBES, Counting, calibrate
from ropewalk.prove.subjects.endpoint.client import (
    Client,
    PromptTooLongError,
    RejectedError,
    ServerGoneError,
)
from ropewalk.prove.subjects.endpoint.limits import Gate
from ropewalk.prove.subjects.endpoint.probe import (
    CHAT,
    Dialect,
    ServerFacts,
    choose_model,
    find_dialect,
    look,
)
from ropewalk.prove.subjects.endpoint.settings import APIS, PREFIX, EndpointSettings
from ropewalk.prove.subjects.endpoint.subject import EndpointSubject, ServedPrompts
from ropewalk.prove.subjects.endpoint.tokenizers import Estimate, ServerTokenizer
from ropewalk.prove.subjects.endpoint.work import Server
from ropewalk.prove.tokens import Tokens
from ropewalk.rope.spec import Length, PositionSpec

AT_ONCE = 4
"""Requests under way at a server that does not say how many it takes."""
_UNCALIBRATED = {
    "calibration": "none at a server: run the same grid with prefix sharing to compare"
}


@dataclass(frozen=True, slots=True)
class _Served:
    """What was found out about the servers of a run."""

    clients: tuple[Client, ...]
    facts: ServerFacts
    subject: EndpointSubject
    counted_by: str


def prove_endpoint(
    settings: session.ProofSettings,
    listener: session.Listener | None = None,
    sharing: Sharing = Sharing.PREFIX,
) -> session.Proof:
    """Prove `settings.model`, which begins with "openai:", at `settings.endpoint`'s servers.

    `sharing` says how the prompts of a trial are related; what they share is the server's to
    cache, and with NONE it may do so as well.

    Raises an error of `ropewalk.errors`; what was answered before it stays in the run folder.
    """
    tell = listener or session.Listener()
    deadline = None if settings.seconds is None else time.monotonic() + settings.seconds
    given = _check(settings)
    sentences = read_sentences(settings.haystack) if settings.haystack else None
    if settings.out is not None:
        session.try_folder(settings.out)
    gate = Gate(given.requests_per_minute, given.tokens_per_minute)
    clients = tuple(Client(url, gate, timeout=given.timeout) for url in given.base_urls)
    try:
        tell.say(f"asking {clients[0].url} what it is")
        served = _meet(settings.model.removeprefix(PREFIX), given, clients, settings.chat)
        subject = served.subject
        spec = _spec(served.facts)
        lengths = settings.lengths or session.default_lengths(served.facts.window)
        plan = make_plan(lengths, settings.depths, settings.trials, settings.controls)
        prompts = _prompts(settings, subject, plan, sentences, sharing)
        facts = {
            **_facts(settings, served, sentences),
            "sharing": sharing.value,
            **(_UNCALIBRATED if sharing is Sharing.NESTED else {}),
            **plan_facts(plan, settings.threshold, spec),
        }
        folder = settings.out or session.RUNS / _folder_name(subject.model, facts)
        at_once = given.concurrency or served.facts.slots or AT_ONCE
        servers = [Server(client, at_once) for client in clients]
        with Store.open(folder, facts) as store:
            tell.planned(plan, folder)
            result = run_endpoint(
                plan,
                prompts,
                Asking(subject, servers, gate),
                store,
                session.hash_by(facts),
                tell.event,
                deadline=deadline,
                say=tell.say,
                sharing=sharing,
            )
            rows = tuple(store.rows())
            summary = summary_of(rows, store.facts())
    finally:
        gate.stop.set()
        for client in clients:
            client.close()
    return session.Proof(folder, summary, result, None, rows)


def _check(settings: session.ProofSettings) -> EndpointSettings:
    session.check(settings)
    if settings.endpoint is None:
        raise UsageError(
            f"{settings.model} is a model at a server: say where, with --base-url, like "
            "http://127.0.0.1:8080/v1"
        )
    if settings.rope is not None:
        raise UsageError("--rope cannot change a model at a server; start the server with it")
    if settings.device != "auto" or settings.dtype != "float32":
        raise UsageError("--device and --dtype are the server's to choose: leave them out")
    if settings.chat and settings.endpoint.api == "completions":
        raise UsageError("--chat and --api completions exclude each other: leave out one")
    return settings.endpoint


def _meet(name: str, given: EndpointSettings, clients: Sequence[Client], chat: bool) -> _Served:
    """Find out what the first server is, how it is asked and how it counts.

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
    window = facts.window
    subject = EndpointSubject(model, dialect, tokens, counting, window, given.salt)
    return _Served(tuple(clients), facts, subject, counted_by)


def _tokens(given: EndpointSettings, client: Client, model: str) -> tuple[Tokens, str, bool]:
    """What counts our tokens, in words, and whether it is meant to be the server's own."""
    if given.tokenizer is not None:
        return Tokens(load_tokenizer(given.tokenizer)), f"tokenizer of {given.tokenizer}", True
    found = ServerTokenizer.find(client, model)
    if found is not None:
        return Tokens(found), "the server's /tokenize", True
    return Tokens(Estimate()), "no tokenizer (--tokenizer counts exactly)", False


def _count(client: Client, model: str, dialect: Dialect, tokens: Tokens, exact: bool) -> Counting:
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


def _prompts(
    settings: session.ProofSettings,
    subject: EndpointSubject,
    plan: Plan,
    sentences: tuple[str, ...] | None,
    sharing: Sharing,
) -> ServedPrompts:
    """What lays out the plan's prompts. Raises LengthError for lengths that hold no question."""
    maker = PromptMaker(
        subject.tokens,
        settings.seed,
        subject.chat,
        settings.distractors,
        settings.answer_tokens,
        sentences,
    )
    alone = ServedPrompts(maker, subject.counting, subject.salted)
    least = alone.counting.expected(maker.minimum() + alone.salted) + 1
    short = [length for length in plan.lengths if length < least]
    if short:
        raise LengthError(
            f"a length of {short[0]} tokens cannot hold needle, question and answer: at this "
            f"server the shortest is {least} tokens"
        )
    if sharing is not Sharing.NESTED:
        return alone
    documents = DocumentMaker(maker, tuple(map(alone.own, plan.lengths)), plan.depths)
    documents.check()
    return ServedPrompts(documents, subject.counting, subject.salted)


def _facts(
    settings: session.ProofSettings, served: _Served, sentences: tuple[str, ...] | None
) -> dict[str, str]:
    """What the store keeps beside the answers; the server's weights are nobody's business here."""
    import openai

    from ropewalk import __version__

    subject, facts = served.subject, served.facts
    haystack = "generated"
    if sentences is not None:
        digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()[:16]
        haystack = f"own text {digest}"
    recipe = f"{session.RECIPE}, distractors {settings.distractors}"
    if subject.chat:
        recipe += f", answer tokens {settings.answer_tokens}"
    if subject.salt:
        recipe += ", salted"
    counting = subject.counting
    scale = f"{counting.overhead:.0f} + {counting.ratio:.4f}"
    said = {"window": facts.window, "trained": facts.trained, "slots": facts.slots}
    return {
        "model": subject.model,
        "schedule": "the server's own",
        "tokenizer": f"{subject.tokens.fingerprint()} {scale}",
        "seed": str(settings.seed),
        "haystack": haystack,
        "recipe": recipe,
        "dtype": "the server's own precision",
        "chat": "messages, the server's chat template" if subject.chat else "base prompt",
        "device": f"{facts.kind or 'a server'} at {', '.join(c.url for c in served.clients)}",
        "asked by": subject.dialect.words(),
        "server says": ", ".join(f"{k} {v:,}" for k, v in said.items() if v) or "nothing of itself",
        "lengths counted": f"{counting.words()}, by {served.counted_by}",
        "command": settings.command,
        "versions": (
            f"ropewalk {__version__}, openai {openai.__version__}, "
            f"Python {platform.python_version()}"
        ),
        "date": time.strftime("%Y-%m-%d"),
    }


def _folder_name(model: str, facts: dict[str, str]) -> str:
    digest = hashlib.sha256(session.identity(facts).encode()).hexdigest()
    title = re.sub(r"[^A-Za-z0-9.]+", "-", model.rpartition("/")[2]).strip("-")
    return f"{title or 'served'}-{digest[:8]}"
