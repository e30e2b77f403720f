"""From kept answers to intervals, verdicts and an effective length.

The interval is Wilson's score interval (E. B. Wilson, 1927) at 95 %. Lengths are judged pooled
over their depths, because a single cell of a few trials says almost nothing: three hits of
three have a lower end of 0.44. Outcomes other than HIT, MISS and WRONG never count in an
accuracy, and a length of which too few answers could be judged (COVERAGE) gets no verdict.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.prove import sentences
from ropewalk.prove.cells import JUDGED, Cell, Control, Outcome, Row
from ropewalk.prove.summary import (
    CellSummary,
    ControlSummary,
    EffectiveLength,
    LengthSummary,
    RunSummary,
    Share,
)

Z = 1.959964
"""The normal quantile of a two-sided 95 % interval."""

COVERAGE = 0.95
"""Share of a length's answers that must have been judged before it gets a verdict."""

MOST_ANSWERS = 100_000
"""Where the search for a sufficient number of answers a length stops."""


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

    def bar(self, score: float) -> float:
        """The accuracy to clear, for a model that scores `score` at the shortest length."""
        return self.share * score


@dataclass(frozen=True, slots=True)
class AbsoluteThreshold:
    """A length passes above the accuracy `value`, whatever the model does when it is short."""

    value: float

    def __post_init__(self) -> None:
        """Raise UsageError unless 0 < value < 1."""
        _check_open_unit(self.value, "absolute")

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


def wilson(hits: int, judged: int) -> Share:
    """`hits` of `judged` with Wilson's 95 % interval; 0 to 1 when nothing was judged.

    The ends are the two accuracies t at which (hits/judged - t)^2 = z^2 t (1 - t) / judged.
    Raises UsageError when hits is negative or larger than judged.
    """
    if not 0 <= hits <= judged:
        raise UsageError(f"{hits} hits of {judged} answers is impossible: 0 to {judged} can be.")
    if judged == 0:
        return Share(0, 0, 0.0, 1.0)
    rate = hits / judged
    spread = Z * math.sqrt(rate * (1 - rate) / judged + Z * Z / (4 * judged * judged))
    centre = rate + Z * Z / (2 * judged)
    scale = 1 + Z * Z / judged
    # Rounding must not move the two ends that are exact.
    low = 0.0 if hits == 0 else (centre - spread) / scale
    high = 1.0 if hits == judged else (centre + spread) / scale
    return Share(hits, judged, low, high)


def further_trials(seen: Share, rate: float, bar: float, answers_per_trial: int) -> int | None:
    """How many further trials a cell lift the interval of one length above `bar`.

    Each trial adds `answers_per_trial` judged answers (one a depth), and the length goes on
    hitting at `rate`, rounded to whole hits; 100 % stays 100 %. None when the rate does not lie
    above the bar, or when MOST_ANSWERS would not be enough. 0 when it is above already.
    """
    if seen.judged and seen.low >= bar:
        return 0
    if rate <= bar:
        return None
    for trials in range(1, MOST_ANSWERS // answers_per_trial + 1):
        judged = seen.judged + trials * answers_per_trial
        if wilson(min(judged, round(rate * judged)), judged).low >= bar:
            return trials
    return None


def grid_of(rows: Iterable[Row]) -> tuple[tuple[int, ...], tuple[float, ...], int]:
    """Lengths, depths and number of trials that kept rows span, controls apart."""
    cells = {row.cell for row in rows if row.cell.control is Control.NONE}
    lengths = tuple(sorted({cell.length for cell in cells}))
    depths = tuple(sorted({cell.depth for cell in cells}))
    return lengths, depths, 1 + max((cell.trial for cell in cells), default=-1)


def summarise(
    rows: Iterable[Row],
    *,
    lengths: Sequence[int],
    depths: Sequence[float],
    trials: int,
    threshold: Threshold,
    claimed_length: int | None = None,
    claimed_source: str = "",
    trained_length: int | None = None,
    facts: Mapping[str, str] | None = None,
) -> RunSummary:
    """All that a run says so far, finished or not; the order of rows does not matter.

    Only rows of the grid asked about count: other lengths, depths or trial numbers, left by a
    larger plan in the same folder, stay out (`grid_of` gives the grid of everything kept).
    """
    kept = [row for row in rows if row.cell.trial < trials]
    ladder = tuple(sorted(lengths))
    columns_of_depths = tuple(sorted(depths))
    by_field: dict[tuple[int, float], list[Row]] = defaultdict(list)
    for row in kept:
        if row.cell.control is Control.NONE:
            by_field[row.cell.length, row.cell.depth].append(row)
    cells = tuple(
        _cell(length, depth, by_field[length, depth], trials)
        for length in ladder
        for depth in columns_of_depths
    )
    columns, effective = _judge(ladder, cells, trials, threshold, claimed_length)
    return RunSummary(
        lengths=ladder,
        depths=columns_of_depths,
        trials=trials,
        cells=cells,
        columns=columns,
        effective=effective,
        controls=_controls(kept, ladder, cells),
        claimed_length=claimed_length,
        claimed_source=claimed_source,
        trained_length=trained_length,
        facts=dict(facts or {}),
    )


def _check_open_unit(value: float, kind: str) -> None:
    if not 0 < value < 1:
        raise UsageError(
            f"a {kind} threshold of {value:g} is impossible: it must lie between 0 and 1, ends "
            "excluded."
        )


def _share(outcomes: Mapping[Outcome, int]) -> Share:
    return wilson(outcomes.get(Outcome.HIT, 0), sum(outcomes.get(kind, 0) for kind in JUDGED))


def _cell(length: int, depth: float, rows: Sequence[Row], planned: int) -> CellSummary:
    outcomes = Counter(row.answer.outcome for row in rows)
    known = sorted(
        row.answer.log_probability
        for row in rows
        if row.answer.outcome in JUDGED and row.answer.log_probability is not None
    )
    return CellSummary(
        length=length,
        depth=depth,
        share=_share(outcomes),
        outcomes={kind: outcomes[kind] for kind in Outcome if outcomes[kind]},
        mean_log_probability=math.fsum(known) / len(known) if known else None,
        asked=len(rows),
        planned=planned,
    )


def _judge(
    lengths: Sequence[int],
    cells: Sequence[CellSummary],
    trials: int,
    threshold: Threshold,
    claimed: int | None,
) -> tuple[tuple[LengthSummary, ...], EffectiveLength]:
    """Verdicts for every length, and what they amount to."""
    columns_cells = {n: [cell for cell in cells if cell.length == n] for n in lengths}
    outcomes = {n: _outcomes(columns_cells[n]) for n in lengths}
    pooled = {n: _share(outcomes[n]) for n in lengths}
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
        more = further_trials(blocking.pooled, rate, bar, per_trial) or 0
        enough = -(-blocking.pooled.judged // per_trial) + more
    found = sentences.Finding(
        columns=columns,
        outcomes=outcomes,
        certain=certain,
        possible=possible,
        bar=bar,
        more_trials=more,
        enough_trials=enough,
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


def _controls(
    rows: Sequence[Row], lengths: Sequence[int], cells: Sequence[CellSummary]
) -> tuple[ControlSummary, ...]:
    """The control prompts in the order of `Control`, lengths ascending.

    Where depth 1 is in the grid its cells are the needle-at-the-end control: the same prompts.
    """
    groups: dict[tuple[Control, int], list[Row]] = defaultdict(list)
    for row in rows:
        cell: Cell = row.cell
        if cell.control is Control.NEEDLE_ONLY:
            groups[cell.control, 0].append(row)
        elif cell.control is not Control.NONE and cell.length in lengths:
            groups[cell.control, cell.length].append(row)
    found: dict[tuple[Control, int], tuple[int, Share]] = {
        (control, length): (
            length or max(row.actual_length for row in group),
            _share(Counter(row.answer.outcome for row in group)),
        )
        for (control, length), group in groups.items()
    }
    for field in cells:
        if field.depth == 1 and field.asked:
            found.setdefault((Control.END, field.length), (field.length, field.share))
    order = list(Control)
    return tuple(
        ControlSummary(control.value, length, share, sentences.control(control, share))
        for (control, _), (length, share) in sorted(
            found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
        )
    )
