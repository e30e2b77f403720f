"""A whole proof of a model at a server: what `session` is for a model that is run here.

In the order in which things can go wrong: the addresses are tried first, then the ways of asking,
then how the server counts; only then are prompts laid out, and the run folder taken.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from ropewalk.errors import EndpointError, LengthError, UsageError
from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.proof.calibration import Calibrate
from ropewalk.proof.cells import Cell, Sharing
from ropewalk.proof.documents import DocumentMaker
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
from ropewalk.proof.endpoint.work import Server
from ropewalk.proof.endpoint_run import Asking, run_endpoint
from ropewalk.proof.facts import (
    folder_name,
    hash_by,
    plan_facts,
    settings_facts,
    sharing_facts,
    try_folder,
)
from ropewalk.proof.haystack import GeneratedHaystack, read_sentences
from ropewalk.proof.plan import Plan, check_lengths_hold
from ropewalk.proof.progress import ASKING, RunResult
from ropewalk.proof.proof import (
    Proof,
    ProofListener,
    check_lengths,
    default_lengths,
    planned,
    prompt_maker,
    proof_of,
    sharing_line,
    tell_budget,
    until_certain,
)
from ropewalk.proof.reading import Budget, reading
from ropewalk.proof.settings import RUNS, ProofSettings
from ropewalk.proof.store import Store
from ropewalk.proof.tasks.own import OwnDocuments
from ropewalk.proof.tokens import Tokens
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


@dataclass(frozen=True, slots=True)
class _Laid:
    """What is asked: how prompts are related, what lays them out, and the plan of them."""

    sharing: Sharing
    prompts: ServedPrompts
    plan: Plan

    @property
    def own_lengths(self) -> tuple[int, ...]:
        """The lengths of the plan in our tokens, in which documents are laid out."""
        return tuple(map(self.prompts.own, self.plan.lengths))

    def budget(self) -> Budget:
        """What asking all of it takes."""
        read = reading(self.plan, self.prompts)
        asked = len(self.plan.cells)
        return Budget(self.sharing, asked, read.tokens(self.sharing), read.independent)


def prove_endpoint(
    settings: ProofSettings,
    tell: ProofListener | None = None,
    deadline: float | None = None,
) -> Proof:
    """Prove `settings.model`, which begins with "openai:", at `settings.endpoint`'s servers.

    How prompts are related is `settings.sharing`'s to say; what they share is the server's to
    cache, and with NONE it may do so as well. `deadline` is in seconds of time.monotonic.

    Raises an error of `ropewalk.errors`, or DryRun; what was answered before it stays in the run
    folder.
    """
    tell = tell or ProofListener()
    given = _check(settings)
    own = settings.own_questions()
    sentences = read_sentences(settings.haystack) if settings.haystack else None
    if settings.out is not None:
        try_folder(settings.out)
    gate = RequestGate(given.requests_per_minute, given.tokens_per_minute)
    clients = tuple(Client(url, gate, timeout=given.timeout) for url in given.base_urls)
    try:
        tell.say(f"asking {clients[0].url} what it is")
        served = _meet(settings.model.removeprefix(PREFIX), given, clients, settings.chat)
        laid = _lay_out(settings, served, sentences, own, tell)
        tell_budget(settings, laid.budget(), tell)
        facts = _facts(settings, served, laid, sentences, own)
        at_once = given.concurrency or served.facts.slots or AT_ONCE
        servers = [Server(client, at_once) for client in clients]
        return _ask(settings, Asking(served.subject, servers, gate), laid, facts, tell, deadline)
    finally:
        gate.stop.set()
        for client in clients:
            client.close()


def _ask(
    settings: ProofSettings,
    asking: Asking,
    laid: _Laid,
    facts: dict[str, str],
    tell: ProofListener,
    deadline: float | None,
) -> Proof:
    """Take the run folder, ask what it has no answer to, and go on until it is certain."""
    folder = settings.out or RUNS / folder_name(asking.subject.model.rpartition("/")[2], facts)
    with Store.open(folder, facts) as store:
        tell.planned(laid.plan, folder)
        tell.say(ASKING)

        def ask(cells: tuple[Cell, ...]) -> RunResult:
            return run_endpoint(
                replace(laid.plan, cells=cells),
                laid.prompts,
                asking,
                store,
                hash_by(facts),
                tell.event,
                deadline=deadline,
                say=tell.note,
                sharing=laid.sharing,
            )

        result = until_certain(settings, ask(laid.plan.cells), store, ask, tell)
        return proof_of(store, folder, result, None)


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
            f"--calibrate {settings.calibrate} is for a model that is run here: at a server, run "
            "the grid with --sharing prefix too, and compare with ropewalk prove diff"
        )
    if settings.device_map is not None:
        raise UsageError("--device-map is for a model that is run here: leave it out")
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


def _lay_out(
    settings: ProofSettings,
    served: _Served,
    sentences: tuple[str, ...] | None,
    own: OwnDocuments | None,
    tell: ProofListener,
) -> _Laid:
    """How prompts are related, what lays them out, and the plan of them.

    Where nobody said, they are nested if every length can hold a document's facts. Raises
    LengthError for lengths that hold no question.
    """
    subject = served.subject
    lengths = settings.lengths or default_lengths(served.facts.window)
    maker = prompt_maker(settings, subject.tokens, sentences, own, chat=subject.chat)
    alone = ServedPrompts(maker, subject.counting, subject.salted)
    sharing, why = settings.sharing, ""
    if sharing is None:
        why = settings.not_nested()
        sharing = Sharing.PREFIX if why else Sharing.NESTED
    plan = planned(settings, lengths, sharing)

    def least(task: str) -> int:
        return alone.counting.expected(maker.minimum(task) + alone.salted) + 1

    check_lengths(plan, least, "at this server")
    if sharing is Sharing.NESTED:
        documents = DocumentMaker(maker, tuple(map(alone.own, plan.lengths)), plan.depths)
        try:
            documents.check()
            prompts = ServedPrompts(documents, subject.counting, subject.salted)
        except LengthError as error:
            if settings.sharing is not None:
                raise
            sharing, why = Sharing.PREFIX, str(error)
    if settings.sharing is None:
        tell.note(sharing_line(sharing, why))
    if sharing is not Sharing.NESTED:
        laid = _Laid(sharing, alone, planned(settings, lengths, sharing))
        check_lengths_hold(laid.plan.cells, alone)
        return laid
    check_lengths_hold((cell for cell in plan.cells if cell.task != "single"), alone)
    return _Laid(sharing, prompts, plan)


def _facts(
    settings: ProofSettings,
    served: _Served,
    laid: _Laid,
    sentences: tuple[str, ...] | None,
    own: OwnDocuments | None,
) -> dict[str, str]:
    """What the store keeps beside the answers."""
    subject, spec = served.subject, _spec(served.facts)
    return {
        **_server_facts(served),
        **settings_facts(settings, sentences, own, chat=subject.chat, salted=subject.salt),
        **sharing_facts(laid.sharing, laid.own_lengths, laid.plan.depths),
        **(_UNCALIBRATED if laid.sharing is Sharing.NESTED else {}),
        # A server's window is how it was started: no guess at training follows from it.
        **plan_facts(laid.plan, settings.threshold, spec, spec.trained),
    }


def _server_facts(served: _Served) -> dict[str, str]:
    """What is known of the servers; their weights are nobody's business here."""
    import openai

    from ropewalk import __version__

    subject, facts = served.subject, served.facts
    counting = subject.counting
    scale = f"{counting.overhead:.0f} + {counting.ratio:.4f}"
    said = {"window": facts.window, "trained": facts.trained, "slots": facts.slots}
    return {
        "model": subject.model,
        "schedule": "the server's own",
        "tokenizer": f"{subject.tokens.fingerprint()} {scale}",
        "dtype": "the server's own precision",
        "chat": "messages, the server's chat template" if subject.chat else "base prompt",
        "device": f"{facts.kind or 'a server'} at {', '.join(c.url for c in served.clients)}",
        "asked by": subject.dialect.words(),
        "server says": ", ".join(f"{k} {v:,}" for k, v in said.items() if v) or "nothing of itself",
        "lengths counted": f"{counting.words()}, by {served.counted_by}",
        "versions": (
            f"ropewalk {__version__}, openai {openai.__version__}, "
            f"Python {platform.python_version()}"
        ),
    }
