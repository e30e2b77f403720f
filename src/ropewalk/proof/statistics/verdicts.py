"""The threshold, the verdict of every length against it, and the effective length they amount to.

A length has to clear a share of the model's own score, or a fixed accuracy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.proof.cells import JUDGED, Outcome
from ropewalk.proof.sentences import Judgement, result
from ropewalk.proof.statistics.evidence import Evidence
from ropewalk.proof.statistics.intervals import Counts, wilson
from ropewalk.proof.summary import CellSummary, EffectiveLength, LengthSummary, LengthVerdict, Share
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class RelativeThreshold:
    """A length passes above `share` of the model's own score at the shortest length.

    The score is the observed one, taken as known. The shortest length is judged like every
    other one: it is certain only once its own interval lies above `share` of its own score,
    which at full marks takes 22 answers for a share of 0.85.
    """

    share: float = 0.85

    def __post_init__(self) -> None:
        """Raise UsageError unless 0 < share < 1."""
        _check_open_unit(self.share, "relative")

    @property
    def text(self) -> str:
        """As `parse_threshold` reads it."""
        return f"relative:{self.share!r}"

    def bar(self, score: float) -> float:
        """The accuracy to clear, for a model that scores `score` at the shortest length."""
        return self.share * score


@short
@dataclass(frozen=True, slots=True)
class AbsoluteThreshold:
    """A length passes above the accuracy `value`, whatever the model does when it is short."""

    value: float

    def __post_init__(self) -> None:
        """Raise UsageError unless 0 < value < 1."""
        _check_open_unit(self.value, "absolute")

    @property
    def text(self) -> str:
        """As `parse_threshold` reads it."""
        return f"absolute:{self.value!r}"

    def bar(self, score: float) -> float:  # noqa: ARG002 - one interface for both kinds
        """The accuracy to clear."""
        return self.value


Threshold = RelativeThreshold | AbsoluteThreshold


def parse_threshold(text: str) -> Threshold:
    """Read "0.85" or "relative:0.85" as relative, "absolute:0.7" as absolute.

    Raises UsageError for anything else, and for numbers outside 0 to 1, ends excluded: an
    interval never reaches 1, so that a bar of 1 could never be cleared.
    """
    kind, colon, number = text.strip().rpartition(":")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind == "absolute" and not math.isnan(value):
        return AbsoluteThreshold(value)
    if (kind == "relative" or not colon) and not math.isnan(value):
        return RelativeThreshold(value)
    raise UsageError(
        f"threshold {text!r} is not understood: write 0.85 or relative:0.85 for a share of the "
        "model's own score at the shortest length, or absolute:0.7 for a fixed accuracy."
    )


def _check_open_unit(value: float, kind: str) -> None:
    if not 0 < value < 1:
        raise UsageError(
            f"a {kind} threshold of {value:g} is impossible: it must lie between 0 and 1, ends "
            "excluded."
        )


COVERAGE = 0.95
"""Share of a length's answers that must have been judged before it gets a verdict."""


def share_of(outcomes: Mapping[Outcome, int]) -> Share:
    """The share of HITs among the judged of counted outcomes, with its interval."""
    return wilson(outcomes.get(Outcome.HIT, 0), sum(outcomes.get(kind, 0) for kind in JUDGED))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen at one length, before it is judged."""

    length: int
    cells: tuple[CellSummary, ...]
    outcomes: Mapping[Outcome, int]
    documents: Sequence[Counts]
    """Hits and judged answers of every trial."""
    pooled: Share

    @property
    def covered(self) -> bool:
        """Whether enough of the answers could be judged; also when none was kept yet."""
        return self.pooled.judged >= COVERAGE * sum(self.outcomes.values())


@dataclass(frozen=True, slots=True)
class _Bar:
    """What a length has to clear, and what set it."""

    value: float
    yardstick: int | None
    """The shortest length with a judged answer."""
    score: float
    """The share of hits there; full marks before the first answer."""
    nothing_found: bool
    """A relative threshold has nothing to measure by."""


def judge(
    documents: Mapping[int, Sequence[Counts]],
    cells: Sequence[CellSummary],
    trials: int,
    threshold: Threshold,
    claimed: int | None,
    evidence: Evidence,
) -> tuple[tuple[LengthSummary, ...], EffectiveLength]:
    """Verdicts for every length, and what they amount to.

    `documents`: the hits and judged answers of every trial, by length, lengths ascending.
    """
    beside = {
        n: evidence.beside([documents[other] for other in documents if other != n])
        for n in documents
    }
    seen = tuple(_seen(n, documents[n], cells, beside[n]) for n in documents)
    bar = _bar(threshold, seen)
    columns = tuple(_column(one, _verdict(one, bar, evidence.least)) for one in seen)
    certain, possible = _ends(columns)
    more, enough = _further(seen, columns, bar, beside)
    found = Judgement(
        columns=columns,
        outcomes={one.length: one.outcomes for one in seen},
        certain=certain,
        possible=possible,
        bar=bar.value,
        more_trials=more,
        enough_trials=enough,
        unit=evidence.unit,
        trials=trials,
        asked=sum(cell.asked for cell in cells),
        planned=sum(cell.planned for cell in cells),
        nothing_found_at=bar.yardstick if bar.nothing_found else None,
        uncovered=frozenset(one.length for one in seen if not one.covered),
        claimed=claimed,
    )
    return columns, EffectiveLength(
        certain=certain,
        possible=possible,
        threshold=bar.value,
        threshold_rule=_rule(threshold, bar, seen),
        more_trials=more,
        sentence=result(found),
        open_end=possible is not None
        and all(each.verdict is not LengthVerdict.FAILS for each in columns),
    )


def _seen(
    length: int, documents: Sequence[Counts], cells: Iterable[CellSummary], evidence: Evidence
) -> _Seen:
    own = tuple(cell for cell in cells if cell.length == length)
    outcomes: Counter[Outcome] = Counter()
    for cell in own:
        outcomes.update(cell.outcomes)
    return _Seen(length, own, outcomes, documents, evidence.share(documents))


def _bar(threshold: Threshold, seen: Sequence[_Seen]) -> _Bar:
    first = next((one for one in seen if one.pooled.judged), None)
    # Before the first answer the bar is stated for a model with full marks.
    score = 1.0 if first is None else first.pooled.value or 0.0
    nothing_found = isinstance(threshold, RelativeThreshold) and score == 0
    yardstick = None if first is None else first.length
    return _Bar(threshold.bar(score), yardstick, score, nothing_found)


def _verdict(one: _Seen, bar: _Bar, fewest_documents: int) -> LengthVerdict:
    """One length against the bar.

    A length whose prompts all overflowed fails: the model refused it. One of which too few
    answers could be judged is undecided, whatever those say; so is one that clears the bar by
    fewer documents than `fewest_documents`. A model that found nothing at its shortest length
    gives a relative threshold no yardstick: then that length fails, and the others cannot be
    judged.
    """
    pooled = one.pooled
    if bar.nothing_found and one.length == bar.yardstick:
        return LengthVerdict.FAILS
    if pooled.judged == 0:
        all_overflowed = one.outcomes.get(Outcome.OVERFLOW, 0) == sum(one.outcomes.values()) > 0
        return LengthVerdict.FAILS if all_overflowed else LengthVerdict.UNDECIDED
    if bar.nothing_found or not one.covered:
        return LengthVerdict.UNDECIDED
    if pooled.low >= bar.value:
        too_few = (pooled.documents or fewest_documents) < fewest_documents
        return LengthVerdict.UNDECIDED if too_few else LengthVerdict.PASSES
    return LengthVerdict.FAILS if pooled.high < bar.value else LengthVerdict.UNDECIDED


def _column(one: _Seen, verdict: LengthVerdict) -> LengthSummary:
    """A length with its worst depth: the lowest share, then the most answers, then the first.

    The interval of the worst depth is that of this depth alone; picking the worst of several
    makes it look worse than a depth named beforehand.
    """
    judged = [cell for cell in one.cells if cell.share.judged]
    if not judged:
        return LengthSummary(one.length, one.pooled, None, wilson(0, 0), verdict)
    worst = min(judged, key=lambda cell: (cell.share.value, -cell.share.judged, cell.depth))
    alike = len(judged) > 1 and len({cell.share.value for cell in judged}) == 1
    return LengthSummary(one.length, one.pooled, worst.depth, worst.share, verdict, alike)


def _further(
    seen: Sequence[_Seen],
    columns: Sequence[LengthSummary],
    bar: _Bar,
    beside: Mapping[int, Evidence],
) -> tuple[int, int]:
    """Further trials that would settle the first length that does not pass, and all with them.

    (0, 0) where that length is settled, or where no number of trials would do.
    """
    pairs = zip(seen, (column.verdict for column in columns), strict=True)
    unpassed = [(one, verdict) for one, verdict in pairs if verdict is not LengthVerdict.PASSES]
    if not unpassed or bar.nothing_found:
        return 0, 0
    one, verdict = unpassed[0]
    if verdict is LengthVerdict.FAILS or not one.covered:
        return 0, 0
    # With nothing judged yet the length is expected to do as well as the yardstick.
    rate = bar.score if one.pooled.value is None else one.pooled.value
    per_trial = max(1, len(one.cells))
    evidence = beside[one.length]
    more = evidence.further(one.documents, rate, bar.value, per_trial)
    return more, evidence.trials(one.documents, per_trial) + more


def _ends(columns: Sequence[LengthSummary]) -> tuple[int | None, int | None]:
    """The certain and the possible end.

    A length without a judged answer is never certain and ends the certain part; it does not end
    the possible part, but cannot be its end, since nothing was seen there.
    """
    certain: int | None = None
    for column in columns:
        if column.verdict is not LengthVerdict.PASSES:
            break
        certain = column.length
    possible: int | None = None
    for column in columns:
        if column.verdict is LengthVerdict.FAILS:
            break
        possible = column.length if column.pooled.judged else possible
    return certain, possible


def _rule(threshold: Threshold, bar: _Bar, seen: Sequence[_Seen]) -> str:
    if isinstance(threshold, AbsoluteThreshold):
        return f"accuracy {threshold.value:g}, absolute"
    share = next((one.pooled for one in seen if one.length == bar.yardstick), None)
    if share is None:
        return f"{threshold.share:g} of its own score at the shortest length (not known yet)"
    return (
        f"{threshold.share:g} of its own score at {bar.yardstick:,} tokens "
        f"({share.hits} of {share.judged})"
    )
