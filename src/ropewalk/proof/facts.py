"""What makes a run this run, and where its answers go: facts, hashes, the run folder's name.

What a run folder says of its run beside the answers, as texts, and the summary made from it.

A proof and a later look at its folder make their summary here, from the same rows and the same
texts, so that both show the same. A folder may hold answers of other plans beside those of the run
that was the last in it; only the prompts of the run's own plan count.

A run's answers task by task: a summary of each, and what is left when guessing is taken out.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ropewalk.errors import LengthError, StoreError
from ropewalk.proof.cells import Cell, Outcome, Prompt, Row, Sharing
from ropewalk.proof.endpoint.replies import served_facts
from ropewalk.proof.lock import FolderLock
from ropewalk.proof.needles import corrected
from ropewalk.proof.plan import Plan, make_plan, read_left_out
from ropewalk.proof.progress import Pace, shared_row, whole_row
from ropewalk.proof.sentences import predictions_text, read_predictions, reasons
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.statistics import (
    AbsoluteThreshold,
    Threshold,
    evidence_of,
    grid_of,
    parse_threshold,
    summarise,
)
from ropewalk.proof.store import IDENTITY
from ropewalk.proof.summary import Reason, RunSummary
from ropewalk.proof.tasks.own import OwnDocuments
from ropewalk.proof.tasks.suite import TASKS
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.spec import Length, PositionSpec

RECIPE = 5
"""Raised when the layout of prompts changes: answers to older prompts are then another run's."""


def settings_facts(
    settings: ProofSettings,
    sentences: tuple[str, ...] | None,
    own: OwnDocuments | None,
    *,
    chat: bool,
    salted: bool = False,
) -> dict[str, str]:
    """What the store keeps of the settings beside the answers, whoever is asked.

    Texts of the user's are known by content: the same by another path are the same.
    """
    recipe = f"{RECIPE}, distractors {settings.distractors}"
    if chat:
        recipe += f", answer tokens {settings.answer_tokens}"
    if salted:
        recipe += ", salted"
    if settings.all_tasks != ("single",):
        recipe += f", tasks {' + '.join(settings.all_tasks)}"
    if own is not None:
        # Field by field: a repr is for readers, and leaves out what is long.
        asked = [astuple(question) for question in own.questions]
        recipe += f", own questions {_digest(repr((sorted(own.documents.items()), asked)))}"
    until = settings.until_certain
    return {
        "seed": str(settings.seed),
        "haystack": (
            "generated" if sentences is None else f"own text {_digest(chr(10).join(sentences))}"
        ),
        "recipe": recipe,
        "command": settings.command,
        "date": time.strftime("%Y-%m-%d"),
        **({} if until is None else {"until_certain": str(until.most_trials)}),
    }


def sharing_facts(
    sharing: Sharing, lengths: Sequence[int], depths: Sequence[float]
) -> dict[str, str]:
    """What prompts share, and what the document that they share is laid out over.

    A nested document holds a fact for every depth (a share) of every length (tokens), so that all
    of them decide each of its prompts. Other prompts depend on their own cell alone.
    """
    document = "none"
    if sharing is Sharing.NESTED:
        tokens, percents = ", ".join(map(str, lengths)), ", ".join(map(_percent, depths))
        document = f"{tokens} tokens at {percents} %"
    return {"sharing": sharing.value, "document": document}


def identity(facts: dict[str, str]) -> str:
    """What makes a run this run, as one text."""
    return "|".join(facts[name] for name in IDENTITY)


def hash_by(facts: dict[str, str]) -> Callable[[Prompt], str]:
    """Hashes model, schedule, tokenizer and everything else of IDENTITY with the prompt."""
    start = identity(facts)

    def hash_of(prompt: Prompt) -> str:
        ids = ",".join(map(str, (*prompt.token_ids, -1, *prompt.value_ids)))
        return hashlib.sha256(f"{start}|{ids}".encode()).hexdigest()

    return hash_of


def folder_name(title: str, facts: dict[str, str]) -> str:
    """The same settings lead to the same folder, so that the same command goes on."""
    digest = hashlib.sha256(identity(facts).encode()).hexdigest()
    words = re.sub(r"[^A-Za-z0-9.]+", "-", title).strip("-")
    return f"{words or 'served'}-{digest[:8]}"


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


def _percent(depth: float) -> str:
    """A share as a percentage: short where that is exact."""
    short = f"{100 * depth:g}"
    return short if float(short) / 100 == depth else repr(100 * depth)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


UNKNOWN = "unknown"
"""Stands for a length that a model does not state."""


def plan_facts(
    plan: Plan, threshold: Threshold, spec: PositionSpec, trained: Length | None = None
) -> dict[str, str]:
    """The grid that is asked for, the threshold, and the lengths that the model states.

    `trained` None: the trained length that an audit computes with, stated or guessed.
    """
    trained = trained_length(spec) if trained is None else trained
    kind, value = (
        ("absolute", threshold.value)
        if isinstance(threshold, AbsoluteThreshold)
        else ("relative", threshold.share)
    )
    return {
        "lengths": ",".join(map(str, plan.lengths)),
        "depths": ",".join(map(repr, plan.depths)),
        "trials": str(plan.trials),
        "controls": str(plan.control_trials),
        "tasks": ",".join(plan.tasks),
        "threshold": f"{kind}:{value!r}",
        "claimed": _written(spec.claimed.tokens),
        "claimed_source": spec.claimed.source,
        "trained": _written(trained.tokens),
        "trained_source": trained.source if trained.tokens is not None else "",
        "predicted": predictions_text(spec, plan.lengths, trained),
    }


def summary_of(
    rows: Sequence[Row], facts: Mapping[str, str], threshold: Threshold | None = None
) -> RunSummary:
    """Sum up the rows of the plan that `facts` name, or all rows where they name none.

    `threshold` stands in for the run's own. Raises StoreError for facts that cannot be read.
    """
    rows = own_rows(rows, facts)
    try:
        plan = _plan(facts)
        grid = grid_of(rows) if plan is None else (plan.lengths, plan.depths, plan.trials)
        lengths, depths, trials = grid
        summary = summarise(
            rows,
            lengths=lengths,
            depths=depths,
            trials=trials,
            threshold=threshold or parse_threshold(facts.get("threshold", "0.85")),
            claimed_length=_read(facts.get("claimed", UNKNOWN)),
            claimed_source=facts.get("claimed_source", ""),
            trained_length=_read(facts.get("trained", UNKNOWN)),
            trained_source=facts.get("trained_source", ""),
            facts={**said_facts(facts), **served_facts(rows), **_totals(rows)},
            evidence=evidence_of(_mode(facts), looks="many" if "until_certain" in facts else "one"),
            grown=further_trials(facts),
            left_out=_left_out(rows, facts),
        )
        return replace(summary, reasons=_reasons(summary, facts))
    except (KeyError, ValueError) as error:
        raise _unreadable(error) from error


def own_rows(rows: Sequence[Row], facts: Mapping[str, str]) -> list[Row]:
    """The rows of the run's own plan, and of the trials that it was given beyond it.

    They are of the run's own mode of sharing: what its calibration asked by the way stays out, and
    so does what other plans left in the same folder. Raises StoreError for facts that cannot be
    read.
    """
    mode = _mode(facts)
    kept = [row for row in rows if row.sharing == mode]
    try:
        plan = _plan(facts)
        if plan is None:
            return kept
        cells = {*plan.cells, *_further_cells(plan, further_trials(facts))}
    except (KeyError, ValueError, LengthError) as error:
        raise _unreadable(error) from error
    return [row for row in kept if row.cell in cells]


def further_trials(facts: Mapping[str, str]) -> dict[int, int]:
    """How many trials each length has by now that was given some beyond the plan."""
    pairs = (each.split(":") for each in facts.get("grown", "").split(",") if each)
    return {int(length): int(trials) for length, trials in pairs}


def grown_fact(facts: Mapping[str, str], cells: Iterable[Cell]) -> dict[str, str]:
    """What the folder is to say once `cells` are asked beyond the plan, besides those before."""
    grown = further_trials(facts)
    for cell in cells:
        grown[cell.length] = max(grown.get(cell.length, 0), cell.trial + 1)
    return {"grown": ",".join(f"{length}:{trials}" for length, trials in sorted(grown.items()))}


def said_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """What is said of a run: what its counted answers shared, also where it fell back to that."""
    if not facts.get("fallback"):
        return dict(facts)
    why = f"from {facts.get('sharing')} prompts, which are another test by the calibration"
    return {**facts, "sharing": _mode(facts), "fallback": why}


def _plan(facts: Mapping[str, str]) -> Plan | None:
    """The plan that was asked for; None where no grid is named.

    Raises KeyError, ValueError or LengthError for texts that name none that can be.
    """
    if "lengths" not in facts:
        return None
    return make_plan(
        tuple(int(each) for each in facts["lengths"].split(",")),
        tuple(float(each) for each in facts["depths"].split(",")),
        int(facts["trials"]),
        int(facts["controls"]),
        tuple(facts["tasks"].split(",")),
    )


def _further_cells(plan: Plan, grown: Mapping[int, int]) -> Iterator[Cell]:
    """The cells of trials beyond the plan, by how many trials each length has."""
    for length, trials in grown.items():
        for trial in range(plan.trials, trials):
            for task in plan.tasks:
                yield from (Cell(length, depth, trial, task=task) for depth in plan.depths)


def _unreadable(error: Exception) -> StoreError:
    return StoreError(
        f"the run folder says of its run what cannot be read ({error}); its results file is "
        "damaged, or was written by something else than ropewalk"
    )


def _mode(facts: Mapping[str, str]) -> str:
    """What the prompts of the map share: what was asked for, or what the run fell back to."""
    return facts.get("fallback") or facts.get("sharing", "none")


def _totals(rows: Sequence[Row]) -> dict[str, str]:
    """How much was asked and read, how fast, and how many prompts never were (too long, or broken).

    Text that prompts share is read once, and the speed is that of reading.
    """
    read = [row for row in rows if row.answer.outcome not in (Outcome.OVERFLOW, Outcome.ERROR)]
    asked = sum(row.actual_length for row in read)
    taken = sum(tokens for _, tokens, _ in map(_pace, read))
    seconds = sum(row.answer.seconds for row in read)
    once = f" ({taken:,} of them read)" if taken < asked else ""
    speed = f", {taken / seconds:,.0f} tokens a second" if seconds else ""
    unread = f"; {len(rows) - len(read)} more were not read" if len(read) < len(rows) else ""
    return {
        "asked": f"{len(read)} prompts, {asked:,} tokens{once}, {seconds:,.0f} s{speed}{unread}"
    }


def _pace(row: Row) -> Pace:
    return whole_row(row) if row.sharing is Sharing.NONE else shared_row(row)


def _left_out(rows: Sequence[Row], facts: Mapping[str, str]) -> list[Cell]:
    """The cells that could not be laid out, of the tasks that have rows."""
    tasks = {row.cell.task for row in rows}
    return [cell for cell in read_left_out(facts) if cell.task in tasks]


def _reasons(summary: RunSummary, facts: Mapping[str, str]) -> tuple[Reason, ...]:
    """What the schedule predicted of the lengths that scored below the threshold."""
    predicted = read_predictions(facts["predicted"]) if "predicted" in facts else {}
    found = []
    for column in summary.columns:
        value, depth = column.pooled.value, column.worst_depth
        short = value is not None and value < summary.effective.threshold
        if short and depth is not None and column.length in predicted:
            likely = reasons(predicted[column.length], depth)
            found.append(Reason(column.length, depth, likely, column.alike))
    return tuple(found)


def _written(length: int | None) -> str:
    return UNKNOWN if length is None else str(length)


def _read(text: str) -> int | None:
    return None if text == UNKNOWN else int(text)


def by_task(
    rows: Sequence[Row], facts: Mapping[str, str], threshold: Threshold | None = None
) -> dict[str, RunSummary]:
    """The summary of each task that has rows, in the order of `TASKS`, others behind.

    Each is judged against its own score at the shortest length where the threshold is relative.
    Raises StoreError as `summary_of` does.
    """
    rows = own_rows(rows, facts)
    found = {row.cell.task for row in rows}
    names = [name for name in TASKS if name in found] + sorted(found - set(TASKS))
    return {
        name: summary_of([row for row in rows if row.cell.task == name], facts, threshold)
        for name in names
    }


def without_guessing(task: str, summary: RunSummary) -> dict[int, float]:
    """By length, the share of hits with guessing taken out: 0 for guessing, 1 for all right.

    Lengths without a judged answer are left out, and all are for a task whose chance level is
    not known.
    """
    if task not in TASKS:
        return {}
    chance = TASKS[task].chance
    return {
        column.length: corrected(column.pooled.value, chance)
        for column in summary.columns
        if column.pooled.value is not None
    }
