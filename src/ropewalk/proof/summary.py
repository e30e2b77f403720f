"""What a finished or running proof amounts to: the values that reports draw.

Made by `ropewalk.proof.statistics` from rows; no logic here. `low` and `high` are the ends of
95 % intervals of the share of HITs among judged answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ropewalk.proof.cells import Outcome
from ropewalk.short import short, short_with


@short
@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `judged` answers, with the ends of the 95 % interval (0 and 1 for none).

    `documents`: how many documents the answers come from, where those of one document may hit
    or miss together; `effective`: about how many independent answers they are worth,
    judged / (1 + (m - 1) r) with m answers a document and their correlation r as estimated.
    None where answers are taken as independent.
    """

    hits: int
    judged: int
    low: float
    high: float
    documents: int | None = None
    effective: float | None = None

    @property
    def value(self) -> float | None:
        """hits / judged, None when nothing was judged."""
        return self.hits / self.judged if self.judged else None


@short
@dataclass(frozen=True, slots=True)
class CellSummary:
    """One field of the heat map. `outcomes` counts every outcome, judged or not."""

    length: int
    depth: float
    share: Share
    outcomes: Mapping[Outcome, int]
    mean_log_probability: float | None
    asked: int
    """How many answers are kept."""
    planned: int
    """How many the plan asks for."""


@short
@dataclass(frozen=True, slots=True)
class LengthSummary:
    """A column pooled over its depths, and its worst depth with an interval of its own."""

    length: int
    pooled: Share
    worst_depth: float | None
    worst: Share
    verdict: str
    """"passes", "fails" or "undecided" against the threshold."""
    alike: bool = False
    """Whether every judged depth has the same share, so that none of them is the worst."""


@short
@dataclass(frozen=True, slots=True)
class EffectiveLength:
    """The longest length that is certain, and the longest that is still possible.

    `certain`: every tested length up to it has its pooled interval above the threshold.
    `possible`: no tested length up to it has its pooled interval below the threshold.
    None: not even the shortest. `more_trials`: about how many further trials a cell would make the
    first length that is not certain pass if the model goes on as it did; 0 when it is settled, or
    when no number of trials would do (the sentence says which). `open_end`: nothing failed, so
    that `possible` is just the longest length with a judged answer, and says nothing of what lies
    beyond it.
    """

    certain: int | None
    possible: int | None
    threshold: float
    threshold_rule: str
    more_trials: int
    sentence: str
    """The result in one plain sentence."""
    open_end: bool = False


@short
@dataclass(frozen=True, slots=True)
class ControlSummary:
    """One control prompt kind at one length, and what it says in words."""

    name: str
    length: int
    share: Share
    reading: str


@short
@dataclass(frozen=True, slots=True)
class Reason:
    """What speaks against a length at its worst depth, by `ropewalk.proof.sentences`.

    `likely` is empty where nothing in the schedule does.
    """

    length: int
    depth: float
    likely: tuple[str, ...]
    alike: bool = False
    """Whether every depth of the length scored the same; `depth` is then the first."""


@short_with("effective", "trained_length", "claimed_length", "trials", "lengths")
@dataclass(frozen=True, slots=True)
class RunSummary:
    """All of a run. `cells` holds every planned field, asked or not, lengths then depths."""

    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    trials: int
    cells: tuple[CellSummary, ...]
    columns: tuple[LengthSummary, ...]
    effective: EffectiveLength
    controls: tuple[ControlSummary, ...]
    claimed_length: int | None
    claimed_source: str
    trained_length: int | None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What to print beside the result: model, schedule, seed, versions, command, seconds."""
    reasons: tuple[Reason, ...] = ()
    """What the schedule has to say of lengths that fall short of the threshold."""
    interval: str = "Wilson 95 %"
    """What the intervals of pooled lengths are called."""
    trained_source: str = ""
    """Who says what `trained_length` is, or that it is a guess."""
    unit: str = "trial"
    """What further trials bring: a "trial" a cell, or a "document" with all its questions."""
