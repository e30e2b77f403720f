"""What a run folder says of its run: one typed record, written once, and checked when it is read.

Its first ten fields are the identity of the run: what its prompts and answers depend on. With
these a cell has one prompt, whatever else is planned: trials may grow in the same folder, and
where no document is shared, lengths and depths too.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ropewalk.errors import StoreError
from ropewalk.proof.cells import Cell, Prompt, Sharing
from ropewalk.proof.plan import Plan, in_words, make_plan
from ropewalk.proof.sentences import Prediction, predict
from ropewalk.proof.statistics.verdicts import AbsoluteThreshold, RelativeThreshold, Threshold
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.spec import Length, PositionSpec
from ropewalk.short import short_with

if TYPE_CHECKING:
    from ropewalk.proof.own import OwnDocuments
    from ropewalk.proof.settings import ProofSettings

RECIPE = 5
"""Raised when the layout of prompts changes: answers to older prompts are then another run's."""

UNKNOWN = "unknown"
"""Stands for a length that a model does not state."""

IDENTITY = (
    "model",
    "schedule",
    "tokenizer",
    "seed",
    "haystack",
    "recipe",
    "dtype",
    "chat",
    "sharing",
    "document",
)
"""The facts that make two runs the same run."""


@short_with("name", "model")
@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run is and what was found out about it; lengths in tokens, depths as shares.

    The identity: hash of the model's file, fingerprint of the schedule, hash of the tokenizer,
    seed, hash of the haystack, version of the prompts' layout, number type, prompt style, what
    prompts share, and over which lengths and depths a shared document is laid out. `lengths` empty:
    no grid is named, and the kept rows span it.
    """

    model: str = ""
    schedule: str = ""
    tokenizer: str = ""
    seed: int = 0
    haystack: str = "generated"
    recipe: str = ""
    dtype: str = ""
    chat: str = "base prompt"
    sharing: Sharing = Sharing.NONE
    document: str = "none"
    lengths: tuple[int, ...] = ()
    depths: tuple[float, ...] = ()
    trials: int = 1
    controls: int = 0
    tasks: tuple[str, ...] = ("single",)
    threshold: RelativeThreshold | AbsoluteThreshold = field(default_factory=RelativeThreshold)
    claimed: int | None = None
    claimed_source: str = ""
    trained: int | None = None
    trained_source: str = ""
    predicted: tuple[Prediction, ...] = ()
    until_certain: int | None = None
    """The most trials that a length is given; None for a run of the planned ones alone."""
    grown: dict[int, int] = field(default_factory=dict)
    """How many trials each length has by now that was given some beyond the plan."""
    fallback: Sharing | None = None
    """What is asked instead of branches that turned out to be another test."""
    calibration: str = ""
    left_out: tuple[tuple[Cell, str], ...] = ()
    """The cells that could not be laid out, and why."""
    name: str = ""
    rope: str = ""
    device: str = ""
    tables: str = ""
    not_shared: str = ""
    asked_as: str = ""
    asked_by: str = ""
    server_says: str = ""
    lengths_counted: str = ""
    versions: str = ""
    command: str = ""
    date: str = ""

    @property
    def mode(self) -> Sharing:
        """What the prompts of the map share: what was asked for, or what the run fell back to."""
        return self.fallback or self.sharing

    @property
    def plan(self) -> Plan | None:
        """The plan that was asked for; None where no grid is named. Raises LengthError."""
        if not self.lengths:
            return None
        return make_plan(self.lengths, self.depths, self.trials, self.controls, self.tasks)

    def identity(self) -> dict[str, str]:
        """What makes a run this run, each fact as a text."""
        return {name: _text(getattr(self, name)) for name in IDENTITY}

    def with_further(self, cells: Iterable[Cell]) -> RunFacts:
        """The same once `cells` are asked beyond the plan."""
        grown = dict(self.grown)
        for cell in cells:
            grown[cell.length] = max(grown.get(cell.length, 0), cell.trial + 1)
        return replace(self, grown=grown)

    def further_cells(self) -> Iterator[Cell]:
        """The cells of trials beyond the plan."""
        for length, trials in self.grown.items():
            for trial in range(self.trials, trials):
                for task in self.tasks:
                    yield from (Cell(length, depth, trial, task=task) for depth in self.depths)

    def without(self, left_out: Mapping[Cell, str]) -> RunFacts:
        """The same with further cells that could not be laid out."""
        return replace(self, left_out=tuple((dict(self.left_out) | dict(left_out)).items()))

    def said(self) -> dict[str, str]:
        """Every fact that there is as a text, by the name that reports and JSON give it.

        What the counted answers shared is said, also where the run fell back to that.
        """
        told = {name: _text(value) for name, value in _held(self) if name not in _PLANNED}
        told |= {"sharing": self.mode.value}
        if self.lengths:
            told |= {name: _text(getattr(self, name)) for name in _PLANNED}
            told |= {"threshold": self.threshold.text, "predicted": predictions_text(self)}
        if self.fallback:
            told["fallback"] = f"from {self.sharing}, which are another test by the calibration"
        if self.left_out:
            told["left out"] = in_words(dict(self.left_out))
            told["left_out"] = json.dumps([[*astuple(cell), why] for cell, why in self.left_out])
        return dict(sorted(told.items()))


_PLANNED = (
    *("lengths", "depths", "trials", "controls", "tasks", "claimed", "claimed_source"),
    *("trained", "trained_source"),
)
_WORDED = ("threshold", "predicted", "fallback", "left_out")
_SPACED = ("not_shared", "asked_as", "asked_by", "server_says", "lengths_counted")


def _held(facts: RunFacts) -> Iterator[tuple[str, Any]]:
    """The facts that there are, but for those that are worded, by the names that are printed."""
    for each in fields(facts):
        value = getattr(facts, each.name)
        if each.name in _WORDED or (value in ("", None, {}) and each.name != "command"):
            continue
        yield each.name.replace("_", " ") if each.name in _SPACED else each.name, value


def _text(value: Any) -> str:
    """A fact as it is printed, and as it stands in the identity of a run."""
    if value is None:
        return UNKNOWN
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, dict):
        return ",".join(f"{name}:{each}" for name, each in sorted(value.items()))
    if isinstance(value, tuple):
        return ",".join(each if isinstance(each, str) else repr(each) for each in value)
    return str(value)


def predictions_text(facts: RunFacts) -> str:
    """What the schedule predicts of each length, as JSON."""
    return json.dumps([asdict(each) for each in facts.predicted])


def written(facts: RunFacts) -> bytes:
    """The record as a run folder keeps it: JSON by the dataclass."""
    return bytes(_schema().dump_json(facts))


def read(text: str | bytes) -> RunFacts:
    """The record of a run folder. Raises StoreError for what is none, or cannot be."""
    try:
        found: RunFacts = _schema().validate_json(text)
        # A plan that cannot be is refused here and not where it is counted.
        _ = found.plan
    except ValueError as error:
        raise StoreError(
            f"the run folder says of its run what cannot be read ({' '.join(str(error).split())}); "
            "its results file is damaged, or was written by something else than ropewalk"
        ) from error
    return found


@lru_cache(maxsize=1)
def _schema() -> Any:
    # Most commands read no run folder.
    from pydantic import TypeAdapter

    return TypeAdapter(RunFacts)


def with_settings(
    facts: RunFacts,
    settings: ProofSettings,
    sentences: tuple[str, ...] | None,
    own: OwnDocuments | None,
    *,
    salted: bool = False,
    chat: bool = False,
) -> RunFacts:
    """The facts with what the settings say, whoever is asked; `chat`: whether by a template.

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
    return replace(
        facts,
        seed=settings.seed,
        haystack=(
            "generated" if sentences is None else f"own text {_digest(chr(10).join(sentences))}"
        ),
        recipe=recipe,
        command=settings.command,
        date=time.strftime("%Y-%m-%d"),
        until_certain=None if settings.further is None else settings.further.most_trials,
    )


def with_plan(
    facts: RunFacts,
    plan: Plan,
    threshold: Threshold,
    spec: PositionSpec,
    trained: Length | None = None,
) -> RunFacts:
    """The facts with the grid, the threshold, and the lengths that the model states.

    `trained` None: the trained length that an audit computes with, stated or guessed.
    """
    trained = trained_length(spec) if trained is None else trained
    return replace(
        facts,
        lengths=plan.lengths,
        depths=plan.depths,
        trials=plan.trials,
        grown=dict(plan.more),
        controls=plan.control_trials,
        tasks=plan.tasks,
        threshold=threshold,
        claimed=spec.claimed.tokens,
        claimed_source=spec.claimed.source,
        trained=trained.tokens,
        trained_source=trained.source if trained.tokens is not None else "",
        predicted=tuple(predict(spec, length, trained) for length in plan.lengths),
    )


def with_sharing(
    facts: RunFacts, sharing: Sharing, lengths: Sequence[int], depths: Sequence[float]
) -> RunFacts:
    """The facts with what prompts share, and what the document that they share is laid out over.

    A haystack has a gap for every depth (a share) of every length (tokens), so that all of
    them decide each of its prompts. Other prompts depend on their own cell alone.
    """
    document = "none"
    if sharing is Sharing.BRANCHES:
        tokens, percents = ", ".join(map(str, lengths)), ", ".join(map(_percent, depths))
        document = f"{tokens} tokens at {percents} %"
    return replace(facts, sharing=sharing, document=document)


def hash_by(facts: RunFacts) -> Callable[[Prompt], str]:
    """Hashes model, schedule, tokenizer and everything else of IDENTITY with the prompt."""
    start = "|".join(facts.identity().values())

    def hash_of(prompt: Prompt) -> str:
        ids = ",".join(map(str, (*prompt.token_ids, -1, *prompt.value_ids)))
        return hashlib.sha256(f"{start}|{ids}".encode()).hexdigest()

    return hash_of


def folder_name(title: str, facts: RunFacts) -> str:
    """The same settings lead to the same folder, so that the same command goes on."""
    digest = hashlib.sha256("|".join(facts.identity().values()).encode()).hexdigest()
    words = re.sub(r"[^A-Za-z0-9.]+", "-", title).strip("-")
    return f"{words or 'served'}-{digest[:8]}"


def _percent(depth: float) -> str:
    """A share as a percentage: short where that is exact."""
    plain = f"{100 * depth:g}"
    return plain if float(plain) / 100 == depth else repr(100 * depth)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
