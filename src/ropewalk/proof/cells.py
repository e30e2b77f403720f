"""The values that a proof passes around: cells, prompts, answers. No logic, no torch.

Lengths are in tokens of the model's own tokenizer, depths are shares from 0 (the needle is the
first thing in the haystack) to 1 (the last), times are in seconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from enum import StrEnum

from ropewalk.short import short


class Outcome(StrEnum):
    """What came of one prompt. Only the first three count for accuracy."""

    HIT = "HIT"
    """Every token of the value was the most likely one, and nothing continued it."""
    MISS = "MISS"
    """Something else was printed."""
    WRONG = "WRONG"
    """The value of another needle, a distractor, was printed."""
    REFUSED = "REFUSED"
    """The model declined to answer: says nothing about what it can find."""
    EMPTY = "EMPTY"
    """Nothing was printed but white space."""
    THINKING = "THINKING"
    """The tokens of the answer were used up by thinking: what it would have been is not known."""
    TRUNCATED = "TRUNCATED"
    """The server read fewer tokens than it was sent: the question was not the one asked."""
    OVERFLOW = "OVERFLOW"
    """The prompt does not fit what the model or the memory can take."""
    ERROR = "ERROR"
    """Something broke. Not an answer: the same command asks again."""
    THROTTLED = "THROTTLED"
    """One prompt is more than the server's rate lets through. Not an answer either."""


JUDGED = (Outcome.HIT, Outcome.MISS, Outcome.WRONG)
"""The outcomes that count for accuracy."""

UNJUDGED = (Outcome.TRUNCATED, Outcome.REFUSED, Outcome.THINKING, Outcome.EMPTY)
"""Answers that say nothing about retrieval, the gravest first; kept, shown and never counted."""

UNANSWERED = (Outcome.ERROR, Outcome.THROTTLED)
"""No answers: the same command asks again."""


class Control(StrEnum):
    """Prompts beside the grid that say whether the grid means anything."""

    NONE = "none"
    """An ordinary cell of the grid."""
    NEEDLE_ONLY = "needle-only"
    """The needle and the question with no haystack: can the model do the task at all?"""
    NO_NEEDLE = "no-needle"
    """The haystack without the needle: a HIT here is a guess, and must not happen."""
    END = "end"
    """The needle last before the question, at every length: what length alone costs."""


class Sharing(StrEnum):
    """How the prompts of one trial are related, and so what is read only once."""

    NONE = "none"
    """Every prompt is read by itself."""
    PREFIX = "prefix"
    """The same prompts as with NONE; the beginnings they share are read once."""
    BRANCHES = "branches"
    """A trial's haystack is read once without needles; each is read in a gap that was left for it,
    and its question sees the haystack and this needle alone."""


class Calibrate(StrEnum):
    """How many cells are asked both ways."""

    OFF = "off"
    """None: what the answers are worth is then not known."""
    SHORT = "short"
    """60 of the shorter lengths (`ropewalk.proof.calibration`)."""
    FULL = "full"
    """All of them."""


@short
@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One question: `length` tokens in all, needle at `depth`, the `trial`-th of its kind."""

    length: int
    depth: float
    trial: int
    control: Control = Control.NONE
    task: str = "single"
    """What is asked; a name of `ropewalk.proof.tasks`."""


@short
@dataclass(frozen=True, slots=True)
class Gapped:
    """A haystack's token ids, and gaps of position ids in it.

    A gap of `size` positions is left before each of the tokens at the indices `gaps`, which ascend.
    """

    token_ids: tuple[int, ...]
    gaps: tuple[int, ...]
    size: int

    def position(self, index: int) -> int:
        """The position id of the token at `index`, behind every gap up to it."""
        return index + self.size * bisect_right(self.gaps, index)

    def gap(self, index: int) -> int:
        """The first position id of the gap before the token at `index`."""
        return index + self.size * bisect_left(self.gaps, index)

    def __hash__(self) -> int:
        """By identity: a haystack is made once for all prompts in it."""
        return id(self)


@short
@dataclass(frozen=True, slots=True)
class Branch:
    """How a prompt lies in a haystack with gaps.

    The prompt is `haystack` up to the token `cut`, then what is asked. Before the token `at` stands
    its needle of `size` tokens, in the gap there; None where it has none, or has it behind `cut`.
    """

    haystack: Gapped
    cut: int
    at: int | None = None
    size: int = 0


@short
@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt laid out for one cell.

    `token_ids` ends where the model has to go on; `value_ids` are the tokens it should go on
    with, and `budget` how many tokens are kept free for its answer (never fewer than the value).
    `length` is the actual count, len(token_ids) + budget; of a
    `branch` with the position ids of the gaps. `needle_start` is the index of the
    needle's first token (-1 without a needle), `depth` the depth it really has. `text` is what
    the tokens say, up to where the model goes on.
    """

    cell: Cell
    token_ids: tuple[int, ...]
    value_ids: tuple[int, ...]
    needle_start: int
    depth: float
    key: str
    value: str
    distractors: tuple[str, ...]
    text: str
    budget: int = 0
    branch: Branch | None = None

    @property
    def length(self) -> int:
        """Position ids of prompt and answer together."""
        return self.asked_at + max(self.budget, len(self.value_ids))

    @property
    def asked_at(self) -> int:
        """The position id of the token that follows the prompt."""
        if self.branch is None:
            return len(self.token_ids)
        return self.branch.haystack.position(self.branch.cut) + len(self.asking)

    @property
    def asking(self) -> tuple[int, ...]:
        """The ids behind the haystack of a `branch`; all of them without one."""
        if self.branch is None:
            return self.token_ids
        return self.token_ids[self.branch.cut + self.branch.size :]


@short
@dataclass(frozen=True, slots=True)
class Answer:
    """What a subject made of a prompt.

    `log_probability` is that of the whole value, teacher-forced, natural logarithm; None when
    nothing was computed. `printed` is what greedy decoding says: the value for a HIT,
    otherwise what was decoded, or the error's text. `details` is what a server said beside it,
    as a JSON object ("" for a model run here); it says how the answer came, and two answers are
    equal without it.
    """

    outcome: Outcome
    log_probability: float | None
    printed: str
    seconds: float
    details: str = field(default="", compare=False)


@short
@dataclass(frozen=True, slots=True)
class Row:
    """A kept answer: the cell asked, what the prompt really was, and what came of it.

    `sharing` says how the prompts of its trial are related. `tokens_read` counts the prompt tokens
    that were read for this answer and not before it: all of them where nothing is shared,
    otherwise the question and what of the shared text was new. Prompts of their own that a
    calibration asks are read as with PREFIX, and are of NONE.
    """

    cell: Cell
    actual_length: int
    actual_depth: float
    key: str
    value: str
    answer: Answer
    prompt_hash: str
    sharing: Sharing = Sharing.NONE
    tokens_read: int = 0
