"""More trials where they can still change the verdict, and nowhere else.

Verdicts are per length, all depths together, so a length's cells are given further trials
together: else the depths that were settled early would count less in its share. A length gets
another trial as long as its interval straddles the threshold, up to a cap. Lengths beyond the
first one that fails get none: nothing that is found there can change the effective length.

The intervals are looked at after every round. They are a confidence sequence
(`ropewalk.proof.statistics.looks`), so that being wrong is no likelier for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ropewalk.errors import UsageError
from ropewalk.proof.cells import Cell, Control, Row
from ropewalk.proof.progress import RunResult
from ropewalk.proof.summary import RunSummary
from ropewalk.short import short

MOST_TRIALS = 50
"""Trials a length gets at most, where no other cap is named."""


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
            if column.verdict == "fails":
                break
            # A length without a judged answer is broken or does not fit: asking on is no help.
            if column.verdict == "passes" or not column.pooled.judged:
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

    def capped(self, summary: RunSummary, rows: Iterable[Row]) -> tuple[int, ...]:
        """The lengths that have as many trials as are allowed, and are undecided still."""
        trials: dict[int, int] = {}
        for row in rows:
            if row.cell.control is Control.NONE:
                trials[row.cell.length] = max(trials.get(row.cell.length, 0), row.cell.trial + 1)
        return tuple(
            column.length
            for column in summary.columns
            if column.verdict == "undecided" and trials.get(column.length, 0) >= self.most_trials
        )


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
        total = replace(
            result,
            done=total.done + result.done,
            asked=total.asked + result.asked,
            left_out={**total.left_out, **result.left_out},
        )
    return total
