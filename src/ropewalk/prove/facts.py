"""What a run folder says of its run beside the answers, as texts, and the summary made from it.

A proof and a later look at its folder make their summary here, from the same rows and the same
texts, so that both show the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.errors import StoreError
from ropewalk.prove import reasons
from ropewalk.prove.cells import Cell, Control, Outcome, Row, Sharing
from ropewalk.prove.laying import read_left_out
from ropewalk.prove.plan import Plan
from ropewalk.prove.progress import Pace, shared_row, whole_row
from ropewalk.prove.served import served_facts
from ropewalk.prove.statistics import (
    AbsoluteThreshold,
    Threshold,
    evidence_of,
    grid_of,
    parse_threshold,
    summarise,
)
from ropewalk.prove.summary import Reason, RunSummary
from ropewalk.rope.spec import PositionSpec

UNKNOWN = "unknown"
"""Stands for a length that a model does not state."""


def plan_facts(plan: Plan, threshold: Threshold, spec: PositionSpec) -> dict[str, str]:
    """The grid that is asked for, the threshold, and the lengths that the model states."""
    kind, value = (
        ("absolute", threshold.value)
        if isinstance(threshold, AbsoluteThreshold)
        else ("relative", threshold.share)
    )
    return {
        "lengths": ",".join(map(str, plan.lengths)),
        "depths": ",".join(map(repr, plan.depths)),
        "trials": str(plan.trials),
        "threshold": f"{kind}:{value!r}",
        "claimed": _written(spec.claimed.tokens),
        "claimed_source": spec.claimed.source,
        "trained": _written(spec.trained.tokens),
        "predicted": reasons.written(spec, plan.lengths),
    }


def summary_of(
    rows: Sequence[Row], facts: Mapping[str, str], threshold: Threshold | None = None
) -> RunSummary:
    """Sum up kept rows over the grid that `facts` name, or over all rows where they name none.

    `threshold` stands in for the run's own. Raises StoreError for facts that cannot be read.
    """
    rows = own_rows(rows, facts)
    try:
        if "lengths" in facts:
            lengths = tuple(int(each) for each in facts["lengths"].split(","))
            depths = tuple(float(each) for each in facts["depths"].split(","))
            trials = int(facts["trials"])
        else:
            lengths, depths, trials = grid_of(rows)
        summary = summarise(
            rows,
            lengths=lengths,
            depths=depths,
            trials=trials,
            threshold=threshold or parse_threshold(facts.get("threshold", "0.85")),
            claimed_length=_read(facts.get("claimed", UNKNOWN)),
            claimed_source=facts.get("claimed_source", ""),
            trained_length=_read(facts.get("trained", UNKNOWN)),
            facts={**facts, **served_facts(rows), **_totals(rows)},
            evidence=evidence_of(_mode(facts), looks="many" if "until_certain" in facts else "one"),
            grown=_asked(rows) if "until_certain" in facts else None,
            left_out=_left_out(rows, facts),
        )
        return replace(summary, reasons=_reasons(summary, facts))
    except (KeyError, ValueError) as error:
        raise StoreError(
            f"the run folder says of its run what cannot be read ({error}); its results file is "
            "damaged, or was written by something else than ropewalk"
        ) from error


def own_rows(rows: Sequence[Row], facts: Mapping[str, str]) -> list[Row]:
    """The rows of the run's own mode of sharing: those of its calibration stay out."""
    return [row for row in rows if row.sharing == _mode(facts)]


def _mode(facts: Mapping[str, str]) -> str:
    """What the prompts of the map share: what was asked for, or what the run fell back to."""
    return facts.get("fallback") or facts.get("sharing", "none")


def _totals(rows: Sequence[Row]) -> dict[str, str]:
    """How much was asked and read, how fast, and how many prompts never were (too long, or broken).

    Text that prompts share is read once, and the speed is that of reading.
    """
    read = [row for row in rows if row.answer.outcome not in (Outcome.OVERFLOW, Outcome.ERROR)]
    asked = sum(row.actual_length for row in read)
    taken = sum(tokens for _, tokens, _ in map(_pace, read))
    seconds = sum(row.answer.seconds for row in read)
    once = f" ({taken:,} of them read)" if taken < asked else ""
    speed = f", {taken / seconds:,.0f} tokens a second" if seconds else ""
    unread = f"; {len(rows) - len(read)} more were not read" if len(read) < len(rows) else ""
    return {
        "asked": f"{len(read)} prompts, {asked:,} tokens{once}, {seconds:,.0f} s{speed}{unread}"
    }


def _pace(row: Row) -> Pace:
    return whole_row(row) if row.sharing is Sharing.NONE else shared_row(row)


def _left_out(rows: Sequence[Row], facts: Mapping[str, str]) -> list[Cell]:
    """The cells that could not be laid out, of the tasks that have rows."""
    tasks = {row.cell.task for row in rows}
    return [cell for cell in read_left_out(facts) if cell.task in tasks]


def _asked(rows: Sequence[Row]) -> dict[int, int]:
    """How many trials each length was given."""
    trials: dict[int, int] = {}
    for row in rows:
        if row.cell.control is Control.NONE:
            trials[row.cell.length] = max(trials.get(row.cell.length, 0), row.cell.trial + 1)
    return trials


def _reasons(summary: RunSummary, facts: Mapping[str, str]) -> tuple[Reason, ...]:
    """What the schedule predicted of the lengths that scored below the threshold."""
    predicted = reasons.read(facts["predicted"]) if "predicted" in facts else {}
    found = []
    for column in summary.columns:
        value, depth = column.pooled.value, column.worst_depth
        short = value is not None and value < summary.effective.threshold
        if short and depth is not None and column.length in predicted:
            likely = reasons.reasons(predicted[column.length], depth)
            found.append(Reason(column.length, depth, likely))
    return tuple(found)


def _written(length: int | None) -> str:
    return UNKNOWN if length is None else str(length)


def _read(text: str) -> int | None:
    return None if text == UNKNOWN else int(text)
