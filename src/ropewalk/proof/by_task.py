"""A run's answers task by task: a summary of each, and what is left when guessing is taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ropewalk.proof.cells import Row
from ropewalk.proof.facts import own_rows, summary_of
from ropewalk.proof.statistics import Threshold
from ropewalk.proof.summary import RunSummary
from ropewalk.proof.tasks.base import corrected
from ropewalk.proof.tasks.suite import TASKS


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
