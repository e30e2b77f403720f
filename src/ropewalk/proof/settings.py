"""What to prove and how: everything a user can say of a proof, and what of it cannot be."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ropewalk.errors import UsageError
from ropewalk.proof.calibration import Calibrate
from ropewalk.proof.cells import Sharing
from ropewalk.proof.prompt import CHAT_ANSWER_TOKENS
from ropewalk.proof.sequential import UntilCertain
from ropewalk.proof.statistics import FEWEST_DOCUMENTS, RelativeThreshold, Threshold
from ropewalk.proof.subjects.endpoint.settings import EndpointSettings
from ropewalk.proof.tasks.own import OwnDocuments, read_own
from ropewalk.short import short

RUNS = Path("ropewalk-runs")
"""Where run folders go when none is named, in the folder the command is started in."""

DEFAULT_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
DEFAULT_TRIALS = 5
"""5 depths x 5 trials: with 25 of 25 right a length is certain, with 20 of 20 it is not."""
DEFAULT_DOCUMENTS = FEWEST_DOCUMENTS
"""Trials where the questions of a trial share a document: fewer make no length certain."""


@short
@dataclass(frozen=True, slots=True)
class ProofSettings:
    """What to prove and how. Lengths in tokens, depths as shares from 0 to 1.

    `lengths` empty: doubling from 1,024 up to the claimed length. `trials` None: DEFAULT_TRIALS,
    or DEFAULT_DOCUMENTS when nested. `rope` names another schedule (`ropewalk.rope.override`),
    `haystack` a text file or folder, `out` the run folder. `seconds` after the start no prompt is
    begun that would not be answered by then. `endpoint` says where and how a model named
    "openai:NAME" is asked. `sharing` None: nested where the model can. `calibrate` None: short
    where that costs less than nesting saves. `price` is that of a million prompt tokens,
    `dry_run` stops before the first prompt. `tasks` are names of `ropewalk.proof.tasks.suite`,
    and none of them what the model's files name (`ropewalk.proof.as_stated`), or else single;
    `documents` (a folder) and `questions` (JSONL) make the task "documents", asked beside them.
    `until_certain` asks further trials where the verdict is open. `device_map` spreads a model
    over devices, as accelerate takes it: "auto", or a mapping of modules. `shorten` leaves out the
    longest lengths where the plan would take longer than `seconds`.
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
    seconds: float | None = None
    command: str = ""
    endpoint: EndpointSettings | None = None
    sharing: Sharing | None = None
    calibrate: Calibrate | None = None
    price: float | None = None
    dry_run: bool = False
    tasks: tuple[str, ...] = ()
    documents: Path | None = None
    questions: Path | None = None
    until_certain: UntilCertain | None = None
    device_map: str | dict[str, str | int] | None = None
    shorten: bool = False

    def check(self) -> None:
        """Raise UsageError for what cannot be, whoever is asked."""
        if self.distractors < 0 or self.distractors > 100:
            raise UsageError(f"{self.distractors} distractors is impossible: 0 to 100 can be")
        if not 1 <= self.answer_tokens <= 1 << 16:
            raise UsageError(f"{self.answer_tokens} answer tokens is impossible: 1 to 65536 can be")
        if (self.documents is None) != (self.questions is None):
            raise UsageError("--documents and --questions go together: give both, or neither")
        if "documents" in self.tasks and self.documents is None:
            raise UsageError(
                "the task documents needs --documents FOLDER and --questions FILE.jsonl"
            )
        if self.sharing is Sharing.NESTED and (reason := self.not_nested()):
            raise UsageError(f"--sharing nested cannot be: {reason}")
        calibrated = self.calibrate not in (None, Calibrate.OFF)
        if calibrated and self.sharing not in (None, Sharing.NESTED):
            raise UsageError(
                f"--calibrate {self.calibrate} is for nested prompts: with --sharing "
                f"{self.sharing} there is nothing to calibrate"
            )

    def not_nested(self) -> str:
        """Why these prompts cannot be nested, whatever the model; "" where they can."""
        if self.distractors:
            return "distractors stand beside one needle, and a document has many"
        if "single" not in self.all_tasks:
            return "only the task single has facts for a document"
        return ""

    def trials_of(self, sharing: Sharing) -> int:
        """Trials of each cell under a way of sharing."""
        if self.trials is not None:
            return self.trials
        return DEFAULT_DOCUMENTS if sharing is Sharing.NESTED else DEFAULT_TRIALS

    def own_questions(self) -> OwnDocuments | None:
        """The task over the user's documents. Raises UsageError for what cannot be read."""
        if self.documents is None or self.questions is None:
            return None
        return read_own(self.documents, self.questions)

    @property
    def all_tasks(self) -> tuple[str, ...]:
        """The tasks to ask, that over the user's documents included."""
        tasks = self.tasks or ("single",)
        own = self.documents is not None and "documents" not in tasks
        return (*tasks, "documents") if own else tasks
