"""From kept rows to all that a run says: cells, lengths, effective length, controls, and tasks.

A folder may hold answers of other plans beside those of the run that was the last in it; only the
prompts of the run's own plan count.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ropewalk.proof.cells import JUDGED, UNANSWERED, Cell, Control, Outcome, Row, Sharing
from ropewalk.proof.endpoint.replies import served_facts
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.needles import corrected
from ropewalk.proof.progress import work_of
from ropewalk.proof.sentences import control as control_sentence
from ropewalk.proof.sentences import reasons
from ropewalk.proof.statistics.evidence import Evidence, Independent, evidence_of
from ropewalk.proof.statistics.intervals import Counts
from ropewalk.proof.statistics.verdicts import Threshold, judge, share_of
from ropewalk.proof.summary import CellSummary, ControlSummary, Reason, RunSummary, Share
from ropewalk.proof.tasks import TASKS


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
    trained_source: str = "",
    facts: Mapping[str, str] | None = None,
    evidence: Evidence = Independent(),  # noqa: B008 - frozen
    grown: Mapping[int, int] | None = None,
    left_out: Iterable[Cell] = (),
) -> RunSummary:
    """All that a run says so far, finished or not; the order of rows does not matter.

    Only rows of the grid asked about count: other lengths, depths or trial numbers, left by a
    larger plan in the same folder, stay out (`grid_of` gives the grid of everything kept).
    `evidence` says what the answers of one trial weigh together. `grown` names the lengths that
    were given more trials than `trials`, and how many. `left_out` are cells that could not be laid
    out: nothing is missing without them.
    """
    ladder = tuple(sorted(lengths))
    planned = {n: max(trials, (grown or {}).get(n, trials)) for n in ladder}
    kept = [row for row in rows if row.cell.trial < planned.get(row.cell.length, trials)]
    columns_of_depths = tuple(sorted(depths))
    cells = tuple(_cells(kept, planned, columns_of_depths, left_out))
    documents = {n: _documents(n, columns_of_depths, kept) for n in ladder}
    columns, effective = judge(documents, cells, trials, threshold, claimed_length, evidence)
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
        interval=evidence.interval,
        trained_source=trained_source,
        unit=evidence.unit,
    )


def _cells(
    rows: Sequence[Row],
    planned: Mapping[int, int],
    depths: Sequence[float],
    left_out: Iterable[Cell],
) -> Iterator[CellSummary]:
    """The fields of the map; `planned` are the trials of each length."""
    by_field: dict[tuple[int, float], list[Row]] = defaultdict(list)
    for row in rows:
        if row.cell.control is Control.NONE:
            by_field[row.cell.length, row.cell.depth].append(row)
    missing = Counter(
        (cell.length, cell.depth)
        for cell in set(left_out) - {row.cell for row in rows}
        if cell.control is Control.NONE and cell.trial < planned.get(cell.length, 0)
    )
    for length in planned:
        for depth in depths:
            field = (length, depth)
            yield _cell(length, depth, by_field[field], planned[length] - missing[field])


def _documents(length: int, depths: Sequence[float], rows: Sequence[Row]) -> tuple[Counts, ...]:
    """Hits and judged answers of every trial of a length that has answers."""
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        cell = row.cell
        if (cell.length, cell.control) == (length, Control.NONE) and cell.depth in depths:
            found[cell.trial][0] += row.answer.outcome is Outcome.HIT
            found[cell.trial][1] += row.answer.outcome in JUDGED
    return tuple((hits, judged) for _, (hits, judged) in sorted(found.items()))


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
        share=share_of(outcomes),
        outcomes={kind: outcomes[kind] for kind in Outcome if outcomes[kind]},
        mean_log_probability=math.fsum(known) / len(known) if known else None,
        asked=len(rows),
        planned=planned,
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
            share_of(Counter(row.answer.outcome for row in group)),
        )
        for (control, length), group in groups.items()
    }
    for field in cells:
        if field.depth == 1 and field.asked:
            found.setdefault((Control.END, field.length), (field.length, field.share))
    order = list(Control)
    return tuple(
        ControlSummary(control.value, length, share, control_sentence(control, share))
        for (control, _), (length, share) in sorted(
            found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
        )
    )


def summary_of(
    rows: Sequence[Row], facts: RunFacts, threshold: Threshold | None = None
) -> RunSummary:
    """Sum up the rows of the plan that `facts` name, or all rows where they name none.

    A proof and a later look at its folder make their summary here, so that both show the same.
    `threshold` stands in for the run's own.
    """
    rows = own_rows(rows, facts)
    plan = facts.plan
    grid = grid_of(rows) if plan is None else (plan.lengths, plan.depths, plan.trials)
    lengths, depths, trials = grid
    asked_tasks = {row.cell.task for row in rows}
    summary = summarise(
        rows,
        lengths=lengths,
        depths=depths,
        trials=trials,
        threshold=threshold or facts.threshold,
        claimed_length=facts.claimed,
        claimed_source=facts.claimed_source,
        trained_length=facts.trained,
        trained_source=facts.trained_source,
        facts={**facts.said(), **served_facts(rows), **_totals(rows)},
        evidence=evidence_of(facts.mode, looks="many" if facts.until_certain else "one"),
        grown=facts.grown,
        left_out=[cell for cell, _ in facts.left_out if cell.task in asked_tasks],
    )
    return replace(summary, reasons=_reasons(summary, facts))


def own_rows(rows: Sequence[Row], facts: RunFacts) -> list[Row]:
    """The rows of the run's own plan, and of the trials that it was given beyond it.

    They are of the run's own mode of sharing: what its calibration asked by the way stays out, and
    so does what other plans left in the same folder.
    """
    kept = [row for row in rows if row.sharing is facts.mode]
    plan = facts.plan
    if plan is None:
        return kept
    cells = {*plan.cells, *facts.further_cells()}
    return [row for row in kept if row.cell in cells]


def by_task(
    rows: Sequence[Row], facts: RunFacts, threshold: Threshold | None = None
) -> dict[str, RunSummary]:
    """The summary of each task that has rows, in the order of `TASKS`, others behind.

    Each is judged against its own score at the shortest length where the threshold is relative.
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


def _totals(rows: Sequence[Row]) -> dict[str, str]:
    """How much was asked and read, how fast, and how many prompts never were (too long, or broken).

    Text that prompts share is read once, and the speed is that of reading.
    """
    read = [row for row in rows if row.answer.outcome not in (Outcome.OVERFLOW, *UNANSWERED)]
    asked = sum(row.actual_length for row in read)
    taken = sum(work_of(row, shared=row.sharing is not Sharing.NONE)[1] for row in read)
    seconds = sum(row.answer.seconds for row in read)
    once = f" ({taken:,} of them read)" if taken < asked else ""
    speed = f", {taken / seconds:,.0f} tokens a second" if seconds else ""
    unread = f"; {len(rows) - len(read)} more were not read" if len(read) < len(rows) else ""
    return {
        "asked": f"{len(read)} prompts, {asked:,} tokens{once}, {seconds:,.0f} s{speed}{unread}"
    }


def _reasons(summary: RunSummary, facts: RunFacts) -> tuple[Reason, ...]:
    """What the schedule predicted of the lengths that scored below the threshold."""
    predicted = {each.length: each for each in facts.predicted}
    found = []
    for column in summary.columns:
        value, depth = column.pooled.value, column.worst_depth
        short = value is not None and value < summary.effective.threshold
        if short and depth is not None and column.length in predicted:
            likely = reasons(predicted[column.length], depth)
            found.append(Reason(column.length, depth, likely, column.alike))
    return tuple(found)
