"""What a proof is, and the steps that its two ways take alike: here, or at a server.

`session` proves a model that is run here, `endpoint_session` one at a server. What they share is
how a plan is made and lengths are checked, what a run is said to take, how it goes on until it is
certain, and what it has found in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ropewalk.errors import LengthError
from ropewalk.findings import Audit
from ropewalk.proof.cells import Cell, Row, Sharing
from ropewalk.proof.facts import by_task, grown_fact, own_rows, summary_of
from ropewalk.proof.plan import LEFT_OUT, Plan, in_words, make_plan, read_left_out, written
from ropewalk.proof.progress import Event, RunResult
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.reading import Budget
from ropewalk.proof.settings import ProofSettings, go_on
from ropewalk.proof.store import Store
from ropewalk.proof.summary import RunSummary
from ropewalk.proof.tasks.own import OwnDocuments
from ropewalk.proof.tokens import Tokens
from ropewalk.short import short, short_with


@short_with("summary.effective", "result")
@dataclass(frozen=True, slots=True)
class Proof:
    """A proof that has run, or has been interrupted: where it lies and what it says."""

    folder: Path
    summary: RunSummary
    result: RunResult
    audit: Audit | None
    """None for a model at a server, whose files are not here."""
    rows: tuple[Row, ...]
    tasks: Mapping[str, RunSummary] = field(default_factory=dict)
    """The summary of each task that was asked."""


@short
@dataclass(frozen=True, slots=True)
class ProofListener:
    """Who is told how a proof goes on: phases, shares of them, the plan, notes, cells."""

    say: Callable[[str], None] = lambda _: None
    share: Callable[[int, int], None] = lambda _done, _total: None
    planned: Callable[[Plan, Path], None] = lambda _plan, _folder: None
    note: Callable[[str], None] = lambda _: None
    event: Callable[[Event], None] = lambda _: None


class DryRun(Exception):  # noqa: N818 - nothing went wrong
    """The plan has been told, and no more was asked for."""


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


def planned(settings: ProofSettings, lengths: tuple[int, ...], sharing: Sharing) -> Plan:
    """The plan of a proof whose prompts are shared in this way. Raises LengthError."""
    trials = settings.trials_of(sharing)
    return make_plan(lengths, settings.depths, trials, settings.controls, settings.all_tasks)


def prompt_maker(
    settings: ProofSettings,
    tokens: Tokens,
    sentences: tuple[str, ...] | None,
    own: OwnDocuments | None,
    *,
    chat: bool | None = None,
) -> PromptMaker:
    """What lays out prompts that are asked by themselves."""
    return PromptMaker(
        tokens,
        settings.seed,
        settings.chat if chat is None else chat,
        settings.distractors,
        settings.answer_tokens,
        sentences,
        {} if own is None else {own.name: own},
    )


def check_texts(
    tokens: Tokens,
    settings: ProofSettings,
    sentences: tuple[str, ...] | None,
    own: OwnDocuments | None,
) -> None:
    """Raise RowError where a text of the user's, or the chat template, holds a token that the
    model's table has no row for: before the model is asked anything.
    """
    texts = {
        f"sentence {number:,} of {settings.haystack}": sentence
        for number, sentence in enumerate(sentences or (), 1)
    }
    if own is not None:
        for path, held in own.documents.items():
            texts |= {f"sentence {n:,} of the document {path}": s for n, s in enumerate(held, 1)}
        for n, asked in enumerate(own.questions, 1):
            texts[f"question {n:,}"] = asked.question
            texts[f"the answer to question {n:,}"] = asked.answer
    tokens.check(texts)
    if settings.chat:
        tokens.check({"the model's chat template": tokens.chat("Hello")})


def check_lengths(
    plan: Plan, least_of: Callable[[str], int], whose: str = "with this model's tokenizer"
) -> None:
    """Raise LengthError for lengths that cannot hold what a task of the plan hides and asks."""
    for task in plan.tasks:
        least = least_of(task)
        short = [length for length in plan.lengths if length < least]
        if short:
            of = "" if task == "single" else f" of the task {task}"
            raise LengthError(
                f"a length of {short[0]} tokens cannot hold needle, question and answer{of}: "
                f"{whose} the shortest is {least} tokens"
            )


def tell_budget(settings: ProofSettings, budget: Budget, tell: ProofListener) -> None:
    """Say what the run will take. Raises DryRun where that is all that was asked for."""
    for line in budget.lines(settings.price):
        tell.note(line)
    if settings.dry_run:
        raise DryRun


def proof_of(store: Store, folder: Path, result: RunResult, found: Audit | None) -> Proof:
    """What a run folder says by now."""
    rows, facts = store.rows(), store.facts()
    own = tuple(own_rows(rows, facts))
    return Proof(folder, summary_of(rows, facts), result, found, own, by_task(rows, facts))


def until_certain(
    settings: ProofSettings,
    first: RunResult,
    store: Store,
    ask: Callable[[tuple[Cell, ...]], RunResult],
    tell: ProofListener,
) -> RunResult:
    """Further trials behind a run, where they were asked for and can still change the verdict.

    What is left out by then is noted. Raises LengthError where that is everything.
    """
    if settings.until_certain is None:
        return note_left_out(first, store, tell)

    def further(cells: tuple[Cell, ...]) -> RunResult:
        lengths = ", ".join(f"{n:,}" for n in dict.fromkeys(cell.length for cell in cells))
        trials = sorted({cell.trial + 1 for cell in cells})
        tell.note(f"not certain yet at {lengths} tokens: {len(cells)} more prompts")
        # Which trials are this run's own is kept before they are: others may lie there already.
        store.note(grown_fact(store.facts(), cells))
        tell.say(f"asking, document {' and '.join(map(str, trials))} of a length")
        return ask(cells)

    def kept() -> tuple[RunSummary, list[Row]]:
        rows, facts = store.rows(), store.facts()
        return summary_of(rows, facts), own_rows(rows, facts)

    return note_left_out(go_on(settings.until_certain, first, further, kept), store, tell)


def note_left_out(result: RunResult, store: Store, tell: ProofListener) -> RunResult:
    """Say and keep which cells could not be laid out; the result as it was given.

    Raises LengthError where none could.
    """
    if result.left_out:
        if not result.done and not result.remaining:
            raise LengthError(f"nothing is left to ask: {in_words(result.left_out)}")
        tell.note(f"left out: {in_words(result.left_out)}")
        known = read_left_out(store.facts()) | dict(result.left_out)
        store.note({"left out": in_words(known), LEFT_OUT: written(known)})
    return result


def sharing_line(sharing: Sharing, why: str) -> str:
    """Which way of sharing was chosen where none was asked for, and why."""
    if sharing is Sharing.PREFIX:
        return f"prefix sharing: the beginnings of prompts are read once, not nested as {why}"
    return (
        "nested sharing: one document a trial for all lengths and depths, as nothing stands "
        "against it; --sharing none asks each prompt by itself"
    )
