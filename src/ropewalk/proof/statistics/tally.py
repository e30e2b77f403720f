"""From kept rows to all that a run says: cells, lengths, effective length and controls."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ropewalk.proof import sentences
from ropewalk.proof.cells import JUDGED, Cell, Control, Outcome, Row
from ropewalk.proof.statistics.evidence import Evidence, Independent
from ropewalk.proof.statistics.intervals import Counts
from ropewalk.proof.statistics.verdicts import Threshold, judge, share_of
from ropewalk.proof.summary import CellSummary, ControlSummary, RunSummary, Share


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
        ControlSummary(control.value, length, share, sentences.control(control, share))
        for (control, _), (length, share) in sorted(
            found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
        )
    )
