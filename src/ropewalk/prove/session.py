"""A whole proof, from a model's name to kept answers and their summary.

The order is the one in which things can go wrong: names and numbers are checked before torch is
imported, a named run folder is tried before weights are loaded, and the live model's frequencies
are compared with the schedule before the first token.
"""

from __future__ import annotations

import hashlib
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ropewalk.audit import Audit, audit
from ropewalk.errors import LengthError, StoreError, UsageError
from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import ModelFiles, read_spec, resolve
from ropewalk.models.rotary_tables import as_loaded, install, schedule_fingerprint
from ropewalk.prove.calibration import Calibrate
from ropewalk.prove.cells import Prompt, Row, Sharing
from ropewalk.prove.facts import own_rows, plan_facts, summary_of
from ropewalk.prove.haystack import read_sentences
from ropewalk.prove.local_run import Asking, LocalRun
from ropewalk.prove.lock import FolderLock
from ropewalk.prove.plan import Plan, make_plan
from ropewalk.prove.prompt import CHAT_ANSWER_TOKENS, PromptMaker
from ropewalk.prove.runner import Event, RunResult
from ropewalk.prove.statistics import RelativeThreshold, Threshold
from ropewalk.prove.store import IDENTITY, Store
from ropewalk.prove.subjects.endpoint.settings import PREFIX, EndpointSettings
from ropewalk.prove.subjects.sharable import sharable
from ropewalk.prove.summary import RunSummary
from ropewalk.prove.tokens import Tokens
from ropewalk.rope.override import override
from ropewalk.rope.spec import PositionSpec

RECIPE = 2
"""Raised when the layout of prompts changes: answers to older prompts are then another run's."""

RUNS = Path("ropewalk-runs")
"""Where run folders go when none is named, in the folder the command is started in."""

DEFAULT_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEFAULT_TRIALS = 5
"""5 depths x 5 trials: with 25 of 25 right a length is certain, with 20 of 20 it is not."""


@dataclass(frozen=True, slots=True)
class ProofSettings:
    """What to prove and how. Lengths in tokens, depths as shares from 0 to 1.

    `lengths` empty: doubling from 1,024 up to the claimed length. `rope` names another schedule
    (`ropewalk.rope.override`), `haystack` a text file or folder, `out` the run folder. `seconds`
    after the start no prompt is begun that would not be answered by then. `endpoint` says where
    and how a model named "openai:NAME" is asked. `sharing` None: nested where the model
    can.
    `price` is that of a million prompt tokens, `dry_run` stops before the first prompt.
    """

    model: str
    lengths: tuple[int, ...] = ()
    depths: tuple[float, ...] = DEFAULT_DEPTHS
    trials: int = DEFAULT_TRIALS
    threshold: Threshold = field(default_factory=RelativeThreshold)
    rope: str | None = None
    haystack: Path | None = None
    seed: int = 0
    device: str = "auto"
    dtype: str = "float32"
    chat: bool = False
    answer_tokens: int = CHAT_ANSWER_TOKENS
    distractors: int = 0
    controls: int = 1
    out: Path | None = None
    seconds: float | None = None
    command: str = ""
    endpoint: EndpointSettings | None = None
    sharing: Sharing | None = Sharing.NONE
    calibrate: Calibrate = Calibrate.SHORT
    price: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof that has run, or has been interrupted: where it lies and what it says."""

    folder: Path
    summary: RunSummary
    result: RunResult
    audit: Audit | None
    """None for a model at a server, whose files are not here."""
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told how a proof goes on: phases, shares of them, the plan, notes, cells."""

    say: Callable[[str], None] = lambda _: None
    share: Callable[[int, int], None] = lambda _done, _total: None
    planned: Callable[[Plan, Path], None] = lambda _plan, _folder: None
    note: Callable[[str], None] = lambda _: None
    event: Callable[[Event], None] = lambda _: None


class DryRun(Exception):  # noqa: N818 - nothing went wrong
    """The plan has been told, and no more was asked for."""


def prove(settings: ProofSettings, listener: Listener | None = None) -> Proof:
    """Run a proof, or go on with the one that lies in its run folder.

    Raises DryRun where that is all that was asked for, and otherwise an error of
    `ropewalk.errors`; what was answered before it stays in the run folder.
    """
    if settings.model.startswith(PREFIX):
        from ropewalk.prove.endpoint_session import prove_endpoint

        if settings.dry_run or settings.price is not None:
            raise UsageError("--dry-run and --price are for models that are run here")
        return prove_endpoint(settings, listener, settings.sharing or Sharing.PREFIX)
    tell = listener or Listener()
    deadline = None if settings.seconds is None else time.monotonic() + settings.seconds
    check(settings)
    files = resolve(settings.model)
    written = read_spec(files)
    spec = override(written, settings.rope) if settings.rope else written
    plan = _plan(settings, spec)
    sentences = read_sentences(settings.haystack) if settings.haystack else None
    if settings.out is not None:
        try_folder(settings.out)
    tell.say("loading torch and transformers")
    device, dtype = check_device(settings.device, settings.dtype)
    loaded = load(files, device=device, dtype=dtype, say=tell.say, share=tell.share)
    tokens = Tokens(loaded.tokenizer)
    maker = PromptMaker(
        tokens,
        settings.seed,
        settings.chat,
        settings.distractors,
        settings.answer_tokens,
        sentences,
    )
    _check_lengths(plan, maker)
    tables = as_loaded(loaded.model, written)
    install(loaded.model, spec, None)
    wanted = Sharing.NESTED if settings.sharing is None else settings.sharing
    able = sharable(loaded.model, spec, plan.lengths, wanted)
    if able.reason:
        tell.note(f"nothing is shared between prompts: {able.reason}")
    local = LocalRun(loaded.model, tokens, spec, plan, maker)
    local.check(able.sharing)
    if able.sharing is not Sharing.NONE or settings.dry_run or settings.price is not None:
        budget = local.budget(able.sharing, settings.calibrate, settings.seed, able.bytes)
        for line in budget.lines(settings.price):
            tell.note(line)
    if settings.dry_run:
        raise DryRun
    facts = {
        **_facts(settings, files, spec, loaded.identity, tokens, sentences),
        **plan_facts(plan, settings.threshold, spec),
        "device": str(device),
        "tables": tables,
        "sharing": able.sharing.value,
        **({"not shared": able.reason} if able.reason else {}),
    }
    folder = settings.out or RUNS / _folder_name(files, settings, facts)
    with Store.open(folder, facts) as store:
        tell.planned(plan, folder)
        asking = Asking(store, hash_by(facts), tell.event, deadline)
        result = _run(settings, local, able.sharing, asking, tell)
        summary = summary_of(store.rows(), store.facts())
        rows = tuple(own_rows(store.rows(), store.facts()))
    return Proof(folder, summary, result, audit(spec, name=files.title), rows)


def _run(
    settings: ProofSettings, local: LocalRun, sharing: Sharing, asking: Asking, tell: Listener
) -> RunResult:
    """Calibrate nested prompts, fall back from them if they are another test, and ask."""
    if sharing is Sharing.NESTED:
        found, ended = local.calibrate(settings.calibrate, settings.seed, asking)
        if ended is not None:
            return ended
        if found is not None:
            tell.note(found.sentence)
            asking.store.note({"calibration": found.sentence})
            if found.real:
                sharing = Sharing.PREFIX
                asking.store.note({"fallback": sharing.value})
    return local.run(sharing, asking)


def default_lengths(claimed: int | None) -> tuple[int, ...]:
    """1,024 and its doublings below the claimed length, and the claimed length itself."""
    if claimed is None:
        raise LengthError("this model claims no length; say which to test, like --lengths 1k,4k")
    lengths = []
    step = 1024
    while step < claimed:
        lengths.append(step)
        step *= 2
    return (*lengths, claimed)


def _plan(settings: ProofSettings, spec: PositionSpec) -> Plan:
    lengths = settings.lengths or default_lengths(spec.claimed.tokens)
    return make_plan(lengths, settings.depths, settings.trials, settings.controls)


def check(settings: ProofSettings) -> None:
    """Raise UsageError for numbers that cannot be, whoever is asked."""
    if settings.distractors < 0 or settings.distractors > 100:
        raise UsageError(f"{settings.distractors} distractors is impossible: 0 to 100 can be")
    if not 1 <= settings.answer_tokens <= 1 << 16:
        raise UsageError(f"{settings.answer_tokens} answer tokens is impossible: 1 to 65536 can be")


def try_folder(folder: Path) -> None:
    """Refuse, while it is cheap, a folder that cannot be written or that another run holds.

    Nothing is held or left here: the store takes the folder for good once it knows which run
    this is.
    """
    try:
        if folder.is_dir():
            FolderLock.take(folder).release()
            return
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        with TemporaryDirectory(prefix=".ropewalk-", dir=above):
            pass
    except OSError as error:
        raise StoreError(
            f"cannot make the run folder {folder} ({error.strerror}); choose another --out folder"
        ) from error
    if folder.exists():
        raise StoreError(f"the run folder {folder} is a file; choose another --out folder")


def _check_lengths(plan: Plan, maker: PromptMaker) -> None:
    least = maker.minimum()
    short = [length for length in plan.lengths if length < least]
    if short:
        raise LengthError(
            f"a length of {short[0]} tokens cannot hold needle, question and answer: with this "
            f"model's tokenizer the shortest is {least} tokens"
        )


def _facts(
    settings: ProofSettings,
    files: ModelFiles,
    spec: PositionSpec,
    identity: str,
    tokens: Tokens,
    sentences: tuple[str, ...] | None,
) -> dict[str, str]:
    """What the store keeps beside the answers: what makes the run this run, and how it was made."""
    import torch
    import transformers

    from ropewalk import __version__

    haystack = "generated"
    if sentences is not None:
        digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()[:16]
        # By content: the same text by another path is the same haystack.
        haystack = f"own text {digest}"
    recipe = f"{RECIPE}, distractors {settings.distractors}"
    if settings.chat:
        recipe += f", answer tokens {settings.answer_tokens}"
    return {
        "name": files.title,
        "model": identity[:16],
        "schedule": schedule_fingerprint(spec),
        "rope": settings.rope or "as shipped",
        "tokenizer": tokens.fingerprint(),
        "seed": str(settings.seed),
        "haystack": haystack,
        "recipe": recipe,
        "dtype": settings.dtype,
        "chat": "chat template" if settings.chat else "base prompt",
        "command": settings.command,
        "versions": (
            f"ropewalk {__version__}, torch {torch.__version__}, "
            f"transformers {transformers.__version__}, Python {platform.python_version()}"
        ),
        "date": time.strftime("%Y-%m-%d"),
    }


def identity(facts: dict[str, str]) -> str:
    """What makes a run this run, as one text."""
    return "|".join(facts[name] for name in IDENTITY)


def _folder_name(files: ModelFiles, settings: ProofSettings, facts: dict[str, str]) -> str:
    """The same settings lead to the same folder, so that the same command goes on."""
    digest = hashlib.sha256(identity(facts).encode()).hexdigest()
    words = f"{files.title}-{settings.rope or ''}"
    return f"{re.sub(r'[^A-Za-z0-9.]+', '-', words).strip('-')}-{digest[:8]}"


def hash_by(facts: dict[str, str]) -> Callable[[Prompt], str]:
    """Hashes model, schedule, tokenizer and everything else of IDENTITY with the prompt."""
    start = identity(facts)

    def hash_of(prompt: Prompt) -> str:
        ids = ",".join(map(str, (*prompt.token_ids, -1, *prompt.value_ids)))
        return hashlib.sha256(f"{start}|{ids}".encode()).hexdigest()

    return hash_of
