"""What to prove and how: everything a user can say of a proof, and what the model's files say.

A model that was trained on one kind of question says little when it is asked another. So a
`config.json` may hold an object `ropewalk_prove` with any of

    tasks    what the model was trained to find: names of `ropewalk.proof.tasks`
    lengths  the lengths to ask, tokens

No engine reads it, and transformers keeps it. What a user names always goes before it.

Where it is wanted, more trials are asked where they can still change the verdict, and nowhere else.
Verdicts are per length, all depths together, so a length's cells are given further trials
together: else the depths that came first would count less in its share. A length gets another
trial as long as its interval straddles the threshold, up to a cap. Lengths beyond the first one
that fails get none: nothing that is found there can change the effective length. The intervals are
looked at after every round, and are a confidence sequence (`ropewalk.proof.statistics.evidence`),
so that being wrong is no likelier for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from ropewalk.errors import UsageError
from ropewalk.models.resolve import ModelFiles
from ropewalk.proof.cells import Calibrate, Cell, Control, Row, Sharing
from ropewalk.proof.endpoint.subject import EndpointSettings
from ropewalk.proof.plan import spread_trials
from ropewalk.proof.progress import RunResult
from ropewalk.proof.prompt import CHAT_ANSWER_TOKENS
from ropewalk.proof.statistics.verdicts import RelativeThreshold, Threshold
from ropewalk.proof.summary import LengthVerdict, RunSummary
from ropewalk.proof.tasks import parse_tasks, suite
from ropewalk.short import short

MOST_TRIALS = 50
"""Trials a length gets at most, where no other cap is named."""

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""What accelerate calls its own ways to spread a model."""

_Choice = TypeVar("_Choice", bound=StrEnum)


def choice_of(kind: type[_Choice], text: str, option: str) -> _Choice:
    """The member of an enumeration that a user names. Raises UsageError for any other name."""
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(kind)
        raise UsageError(f"{option} {text!r} is not known; choose one of {known}") from None


def parse_device_map(given: str | Mapping[str, str | int]) -> str | dict[str, str | int]:
    """What accelerate takes: one of its words, or modules with their devices, also as JSON.

    Raises UsageError for anything else.
    """
    if isinstance(given, str) and given in DEVICE_MAPS:
        return given
    spread: object = given
    if isinstance(given, str):
        try:
            spread = json.loads(given)
        except ValueError:
            spread = None
    if not isinstance(spread, Mapping) or not spread:
        raise UsageError(
            f"--device-map {given!r} is not understood: write one of {', '.join(DEVICE_MAPS)}, or "
            'a JSON object of modules and devices, like {"": "cpu"}'
        )
    for module, device in spread.items():
        if isinstance(device, bool) or not isinstance(device, str | int):
            raise UsageError(
                f"--device-map puts {module!r} on {device!r}: a device is a number or a name"
            )
    return dict(spread)


@short
@dataclass(frozen=True, slots=True)
class UntilCertain:
    """Go on until every length that matters is settled, or has `most_trials` trials.

    Raises UsageError for a cap below 1.
    """

    most_trials: int = MOST_TRIALS

    def __post_init__(self) -> None:
        """Refuse a cap that allows nothing."""
        if self.most_trials < 1:
            raise UsageError(
                f"{self.most_trials} trials at most is impossible: at least 1 must be allowed"
            )

    def round(
        self, summary: RunSummary, rows: Iterable[Row], left_out: Iterable[Cell] = ()
    ) -> tuple[Cell, ...]:
        """The cells to ask next, shortest length first; none when all is settled or capped.

        `summary` must be made with `Repeated` evidence from `rows`. Cells that were `left_out`
        are not asked for again.
        """
        known = (*(row.cell for row in rows), *left_out)
        seen = [cell for cell in known if cell.control is Control.NONE]
        cells: list[Cell] = []
        for column in summary.columns:
            if column.verdict is LengthVerdict.FAILS:
                break
            # A length without a judged answer is broken or does not fit: asking on is no help.
            if column.verdict is LengthVerdict.PASSES or not column.pooled.judged:
                continue
            here = {cell for cell in seen if cell.length == column.length}
            tasks = sorted({cell.task for cell in here})
            latest = max(cell.trial for cell in here)
            # A round that was cut off is finished before the next one begins.
            for trial in (latest, latest + 1):
                more = [
                    cell
                    for task in tasks
                    for depth in summary.depths
                    if (cell := Cell(column.length, depth, trial, task=task)) not in here
                ]
                if more and trial < self.most_trials:
                    cells += more
                    break
        return tuple(cells)


def go_on(
    policy: UntilCertain,
    first: RunResult,
    ask: Callable[[tuple[Cell, ...]], RunResult],
    kept: Callable[[], tuple[RunSummary, Sequence[Row]]],
) -> RunResult:
    """Ask rounds behind a run that ended with `first`, until nothing more is worth asking.

    `ask` asks the cells of a round; `kept` sums up what is kept by then. A run that was
    interrupted or out of time is not gone on with. Counts add up over the rounds.
    """
    total = first
    while not (total.interrupted or total.out_of_time):
        cells = policy.round(*kept(), total.left_out)
        if not cells:
            break
        result = ask(cells)
        if not result.asked and not result.left_out:
            # The same round would come again for ever.
            break
        total = replace(
            result,
            done=total.done + result.done,
            asked=total.asked + result.asked,
            left_out={**total.left_out, **result.left_out},
        )
    return total


RUNS = Path("ropewalk-runs")
"""Where run folders go when none is named, in the folder the command is started in."""

DEFAULT_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEFAULT_TRIALS = 5
"""5 depths x 5 trials: with 25 of 25 right a length is certain, with 20 of 20 it is not."""
DEFAULT_DOCUMENTS = 3
"""Trials of the longest length where the questions of a trial share a haystack. Shorter ones have
as many as their tokens buy, up to MOST_DOCUMENTS; FEWEST_DOCUMENTS make a length certain."""
MOST_DOCUMENTS = 12


@short
@dataclass(frozen=True, slots=True)
class ProofSettings:
    """What to prove and how. Lengths in tokens, depths as shares from 0 to 1.

    `lengths` empty: doubling from 1,024 up to the claimed length. `trials` None: DEFAULT_TRIALS,
    or of branches as many as the tokens of DEFAULT_DOCUMENTS of the longest length buy (of a time
    limit, as many as fit). `rope` names another schedule (`ropewalk.rope.override`),
    `haystack` a text file or folder, `out` the run folder. `minutes` after the start no prompt is
    begun that would not be answered by then. `endpoint` says where and how a model named
    "openai:NAME" is asked. `sharing` None: branches where the model can. `calibrate` None: short
    where that costs less than branches save. `price` is that of a million prompt tokens,
    `dry_run` stops before the first prompt. `tasks` are names of `ropewalk.proof.tasks`,
    `suite` a set of them, and none of them what the model's files name, or else single;
    `documents` (a folder) and `questions` (JSONL) make the task "documents", asked beside them, or
    alone where none is named. `until_certain` asks further trials where the verdict is open, of
    each length MOST_TRIALS at most, or `most_trials`. `device_map` spreads a model
    over devices, as accelerate takes it: "auto", or a mapping of modules. `shorten` leaves out the
    longest lengths where the plan would take longer than `minutes`.
    """

    model: str
    lengths: tuple[int, ...] = ()
    depths: tuple[float, ...] = DEFAULT_DEPTHS
    trials: int | None = None
    threshold: Threshold = field(default_factory=RelativeThreshold)
    rope: str | None = None
    haystack: Path | None = None
    seed: int = 0
    device: str = "auto"
    dtype: str = "auto"
    chat: bool = False
    answer_tokens: int = CHAT_ANSWER_TOKENS
    distractors: int = 0
    controls: int = 1
    out: Path | None = None
    minutes: float | None = None
    command: str = ""
    endpoint: EndpointSettings | None = None
    sharing: Sharing | None = None
    calibrate: Calibrate | None = None
    price: float | None = None
    dry_run: bool = False
    tasks: tuple[str, ...] = ()
    suite: str | None = None
    documents: Path | None = None
    questions: Path | None = None
    until_certain: bool = False
    most_trials: int | None = None
    device_map: str | dict[str, str | int] | None = None
    shorten: bool = False

    def check(self) -> None:
        """Raise UsageError for what cannot be, whoever is asked."""
        if self.distractors < 0 or self.distractors > 100:
            raise UsageError(f"{self.distractors} distractors is impossible: 0 to 100 can be")
        if not 1 <= self.answer_tokens <= 1 << 16:
            raise UsageError(f"{self.answer_tokens} answer tokens is impossible: 1 to 65536 can be")
        if self.most_trials is not None and not self.until_certain:
            raise UsageError("--most-trials goes with --until-certain")
        if self.minutes is not None and not (math.isfinite(self.minutes) and self.minutes > 0):
            raise UsageError(
                f"--minutes {self.minutes:g} is impossible: give a time above 0, like 10"
            )
        _ = self.further
        if self.tasks and self.suite is not None:
            raise UsageError("--task and --suite both say what to ask: give one of them")
        if (self.documents is None) != (self.questions is None):
            raise UsageError("--documents and --questions go together: give both, or neither")
        if "documents" in self.tasks and self.documents is None:
            raise UsageError(
                "the task documents needs --documents FOLDER and --questions FILE.jsonl"
            )
        if self.sharing is Sharing.BRANCHES and (reason := self.not_branched()):
            raise UsageError(f"--sharing branches cannot be: {reason}")
        calibrated = self.calibrate not in (None, Calibrate.OFF)
        if calibrated and self.sharing not in (None, Sharing.BRANCHES):
            raise UsageError(
                f"--calibrate {self.calibrate} is for branches: with --sharing {self.sharing} "
                "there is nothing to calibrate"
            )

    def not_branched(self) -> str:
        """Why these prompts cannot be branches, whatever the model; "" where they can."""
        if self.distractors:
            return (
                "distractors stand at places of their own, and a haystack has a gap for one needle"
            )
        if "single" not in self.all_tasks:
            return "only the task single hides one needle in a haystack of others' gaps"
        return ""

    def trials_of(self, sharing: Sharing) -> int:
        """Trials of each cell under a way of sharing."""
        if self.trials is not None:
            return self.trials
        return DEFAULT_DOCUMENTS if sharing is Sharing.BRANCHES else DEFAULT_TRIALS

    def more_trials(
        self, lengths: Sequence[int], sharing: Sharing, trials: int, most: int
    ) -> dict[int, int]:
        """The trials of lengths that have more than the longest, where none are named."""
        if self.trials is not None or sharing is not Sharing.BRANCHES:
            return {}
        return spread_trials(lengths, trials, most)

    @property
    def further(self) -> UntilCertain | None:
        """The policy of further trials. Raises UsageError for a cap below 1."""
        if not self.until_certain:
            return None
        return UntilCertain() if self.most_trials is None else UntilCertain(self.most_trials)

    @property
    def all_tasks(self) -> tuple[str, ...]:
        """The tasks to ask, that over the user's documents included. Raises UsageError."""
        tasks = self.tasks if self.suite is None else suite(self.suite)
        if self.documents is None:
            return tasks or ("single",)
        return tasks if "documents" in tasks else (*tasks, "documents")


KEY = "ropewalk_prove"


@short
@dataclass(frozen=True, slots=True)
class Stated:
    """What the files say; empty or None for what they do not."""

    tasks: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()


def stated(files: ModelFiles) -> Stated | None:
    """What a model's configuration says of its proof; None where it says nothing.

    Raises UsageError for what cannot be meant, ConfigError for a file that cannot be read.
    """
    if files.kind == "gguf" or not files.config_path.is_file():
        return None
    found = files.config.get(KEY)
    if found is None:
        return None
    wrong = UsageError(
        f"{files.config_path} holds {KEY}, which says how to prove the model, and it cannot be "
        'read: it is an object like {"tasks": ["single"], "lengths": [256]}; '
        "correct it or take it out"
    )
    if not isinstance(found, Mapping):
        raise wrong
    tasks, lengths = found.get("tasks", []), found.get("lengths", [])
    if not _all(tasks, str) or not _all(lengths, int) or any(each < 1 for each in lengths):
        raise wrong
    try:
        names = parse_tasks(",".join(tasks)) if tasks else ()
    except (ValueError, UsageError):
        raise wrong from None
    return Stated(names, tuple(lengths))


def as_stated(settings: ProofSettings, files: ModelFiles) -> tuple[ProofSettings, tuple[str, ...]]:
    """The settings with what the user left open filled in from the files, and what to say of it.

    Raises as `stated`.
    """
    found = stated(files)
    if found is None:
        return settings, ()
    filled, taken = settings, []
    said_what = settings.tasks or settings.suite or settings.documents
    if found.tasks and not said_what:
        filled = replace(filled, tasks=found.tasks)
        taken.append(_named(found.tasks))
    if found.lengths and not settings.lengths:
        filled = replace(filled, lengths=found.lengths)
    said = []
    # What would have been asked anyway is nothing to tell.
    if taken and filled.all_tasks != settings.all_tasks:
        said.append(
            f"asked what its files ({KEY}) say that it was trained on: {', '.join(taken)}; --task "
            "asks otherwise"
        )
    if filled.lengths != settings.lengths:
        lengths = _listed([f"{each:,}" for each in found.lengths])
        said.append(f"asked at the lengths that its files name: {lengths}; --lengths names others")
    if unknown := _unknown(filled, found):
        said.append(f"by its files ({KEY}) the model was not trained on {unknown}")
    return filled, tuple(said)


def _unknown(settings: ProofSettings, found: Stated) -> str:
    """What is asked that the files do not name as trained."""
    parts = []
    others = [name for name in settings.all_tasks if name not in found.tasks]
    if found.tasks and others:
        parts.append(_named(others))
    return " and ".join(parts)


def _named(tasks: Sequence[str]) -> str:
    return f"the task{'s' * (len(tasks) > 1)} {_listed(tasks)}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])


def _all(values: object, kind: type) -> bool:
    return isinstance(values, list) and all(
        isinstance(each, kind) and not isinstance(each, bool) for each in values
    )
