"""Verdicts for every length against the threshold, and the effective length they amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ropewalk.prove import sentences
from ropewalk.prove.cells import JUDGED, Outcome
from ropewalk.prove.statistics.clusters import Counts
from ropewalk.prove.statistics.intervals import wilson
from ropewalk.prove.statistics.looks import Evidence
from ropewalk.prove.statistics.thresholds import AbsoluteThreshold, RelativeThreshold, Threshold
from ropewalk.prove.summary import CellSummary, EffectiveLength, LengthSummary, Share

COVERAGE = 0.95
"""Share of a length's answers that must have been judged before it gets a verdict."""


def share_of(outcomes: Mapping[Outcome, int]) -> Share:
    """The share of HITs among the judged of counted outcomes, with its interval."""
    return wilson(outcomes.get(Outcome.HIT, 0), sum(outcomes.get(kind, 0) for kind in JUDGED))


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
    lengths = tuple(documents)
    columns_cells = {n: [cell for cell in cells if cell.length == n] for n in lengths}
    outcomes = {n: _outcomes(columns_cells[n]) for n in lengths}
    pooled = {n: evidence.share(documents[n]) for n in lengths}
    yardstick = next((n for n in lengths if pooled[n].judged), None)
    score = (pooled[yardstick].value if yardstick is not None else None) or 0.0
    nothing_found = (
        isinstance(threshold, RelativeThreshold) and yardstick is not None and score == 0
    )
    # Before the first answer the bar is stated for a model with full marks.
    bar = threshold.bar(score if yardstick is not None else 1.0)
    verdicts = {
        n: _verdict(pooled[n], outcomes[n], None if nothing_found else bar, first=n == yardstick)
        for n in lengths
    }
    for n in lengths:
        if verdicts[n] == "passes" and (pooled[n].documents or evidence.least) < evidence.least:
            verdicts[n] = "undecided"
    columns = tuple(_column(n, columns_cells[n], pooled[n], verdicts[n]) for n in lengths)
    certain, possible = _ends(columns)
    blocking = next((column for column in columns if column.verdict != "passes"), None)
    more = enough = 0
    settling = blocking is not None and _covered(blocking.pooled, outcomes[blocking.length])
    if blocking is not None and blocking.verdict == "undecided" and settling and not nothing_found:
        # With nothing judged yet the length is expected to do as well as the yardstick.
        rate = blocking.pooled.value
        rate = (score if yardstick is not None else 1.0) if rate is None else rate
        per_trial = max(1, len(columns_cells[blocking.length]))
        more = evidence.further(documents[blocking.length], rate, bar, per_trial)
        enough = evidence.trials(documents[blocking.length], per_trial) + more
    found = sentences.Finding(
        columns=columns,
        outcomes=outcomes,
        certain=certain,
        possible=possible,
        bar=bar,
        more_trials=more,
        enough_trials=enough,
        unit=evidence.unit,
        trials=trials,
        asked=sum(cell.asked for cell in cells),
        planned=sum(cell.planned for cell in cells),
        nothing_found_at=yardstick if nothing_found else None,
        uncovered=frozenset(n for n in lengths if not _covered(pooled[n], outcomes[n])),
        claimed=claimed,
    )
    return columns, EffectiveLength(
        certain=certain,
        possible=possible,
        threshold=bar,
        threshold_rule=_rule(threshold, yardstick, pooled),
        more_trials=more,
        sentence=sentences.result(found),
    )


def _outcomes(cells: Iterable[CellSummary]) -> Counter[Outcome]:
    total: Counter[Outcome] = Counter()
    for cell in cells:
        total.update(cell.outcomes)
    return total


def _covered(pooled: Share, outcomes: Mapping[Outcome, int]) -> bool:
    """Whether enough of a length's answers could be judged; also when none was kept yet."""
    return pooled.judged >= COVERAGE * sum(outcomes.values())


def _verdict(
    pooled: Share, outcomes: Mapping[Outcome, int], bar: float | None, *, first: bool
) -> str:
    """One length against the bar.

    A length whose prompts all overflowed fails: the model refused it. One of which too few
    answers could be judged is undecided, whatever those say. A model that found
    nothing at its shortest length (`first`) gives a relative threshold no yardstick: then
    `bar` is None, that length fails, and the others cannot be judged.
    """
    if bar is None and first:
        return "fails"
    if pooled.judged == 0:
        all_overflowed = outcomes.get(Outcome.OVERFLOW, 0) == sum(outcomes.values()) > 0
        return "fails" if all_overflowed else "undecided"
    if bar is None or not _covered(pooled, outcomes):
        return "undecided"
    if pooled.low >= bar:
        return "passes"
    return "fails" if pooled.high < bar else "undecided"


def _column(
    length: int, cells: Sequence[CellSummary], pooled: Share, verdict: str
) -> LengthSummary:
    """A length with its worst depth: the lowest share, then the most answers, then the first.

    The interval of the worst depth is that of this depth alone; picking the worst of several
    makes it look worse than a depth named beforehand.
    """
    judged = [cell for cell in cells if cell.share.judged]
    if not judged:
        return LengthSummary(length, pooled, None, wilson(0, 0), verdict)
    worst = min(judged, key=lambda cell: (cell.share.value, -cell.share.judged, cell.depth))
    return LengthSummary(length, pooled, worst.depth, worst.share, verdict)


def _ends(columns: Sequence[LengthSummary]) -> tuple[int | None, int | None]:
    """The certain and the possible end.

    A length without a judged answer is never certain and ends the certain part; it does not end
    the possible part, but cannot be its end, since nothing was seen there.
    """
    certain: int | None = None
    for column in columns:
        if column.verdict != "passes":
            break
        certain = column.length
    possible: int | None = None
    for column in columns:
        if column.verdict == "fails":
            break
        possible = column.length if column.pooled.judged else possible
    return certain, possible


def _rule(threshold: Threshold, yardstick: int | None, pooled: Mapping[int, Share]) -> str:
    if isinstance(threshold, AbsoluteThreshold):
        return f"accuracy {threshold.value:g}, absolute"
    if yardstick is None:
        return f"{threshold.share:g} of its own score at the shortest length (not known yet)"
    share = pooled[yardstick]
    return (
        f"{threshold.share:g} of its own score at {yardstick:,} tokens "
        f"({share.hits} of {share.judged})"
    )
