"""The heat map of a run: its fields, the lines below it, the bars of the effective length.

Lengths are columns, depths are rows. What stands under the map is `BELOW`, one line per entry.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from enum import StrEnum

from ropewalk.proof.cells import UNANSWERED, UNJUDGED, Outcome
from ropewalk.proof.summary import CellSummary, EffectiveLength, LengthSummary, RunSummary, Share
from ropewalk.report.document import Column, HeatMap, Limit, MapBand, MapField, Table, Whisker
from ropewalk.report.scale import percent, tokens


class Mark(StrEnum):
    """What a field of the map shows."""

    SHARE = "share"
    """Hits of judged answers."""
    UNASKED = "not asked"
    """No answer is kept yet."""
    OVERFLOW = "overflow"
    """Every kept answer says that the prompt does not fit."""
    ERROR = "error"
    """Nothing was judged, and something broke: the same command asks again."""
    TRUNCATED = "truncated"
    """Nothing was judged; the server cut prompts."""
    REFUSED = "refused"
    """Nothing was judged; the model declined."""
    THINKING = "thinking"
    """Nothing was judged; thinking used up the tokens of answers."""
    EMPTY = "empty"
    """Nothing was judged; answers were empty."""
    THROTTLED = "throttled"
    """Nothing was judged; prompts were more than the server's rate lets through."""


WORDS = {
    Mark.UNASKED: ("?", "–", "not asked yet"),
    Mark.OVERFLOW: ("OVER", "over", "does not fit"),
    Mark.ERROR: ("ERR", "error", "broke and will be asked again"),
    Mark.TRUNCATED: ("CUT", "cut", "the server cut the prompt"),
    Mark.REFUSED: ("REF", "refused", "the model declined"),
    Mark.THINKING: ("THINK", "thinking", "thinking used up --answer-tokens"),
    Mark.THROTTLED: ("RATE", "rate", "more than the server's rate lets through"),
    Mark.EMPTY: ("NONE", "empty", "an empty answer"),
}
"""Of a field without a share: its text in a terminal, on a page, and what it means."""

FLAGS = {
    "!": "some answers broke",
    "^": "some prompts did not fit",
    "~": "some were cut, refused, empty or still thinking",
}

BELOW: tuple[tuple[str, Callable[[LengthSummary], str], str], ...] = (
    ("all depths", lambda column: fraction(column.pooled), "bold"),
    ("  interval", lambda column: interval(column.pooled), ""),
    ("worst depth", lambda column: _worst(column), ""),
    ("  hits", lambda column: fraction(column.worst), ""),
    ("  interval", lambda column: interval(column.worst), ""),
    ("verdict", lambda column: column.verdict, "bold"),
)
"""The lines under the map: name, what it says of a length, and tone. A further line here stands in
the terminal, in the page's table, and among the plain values.
"""


def heat_map(summary: RunSummary, task: str = "single", *, tips: bool = True) -> HeatMap:
    """The map of a summary; its fields link to prompts of `task`."""
    lengths, effective = summary.lengths, summary.effective
    by_place = {(cell.length, cell.depth): cell for cell in summary.cells}
    marks = {mark_of(cell) for cell in summary.cells}
    flags = {flag(cell) for cell in summary.cells}
    legend = [f"{WORDS[mark][0]} {WORDS[mark][2]}." for mark in WORDS if mark in marks]
    legend += [f"{sign} {words}." for sign, words in FLAGS.items() if sign in flags]
    limit = None
    if summary.claimed_length is not None:
        limit = Limit(
            f"claimed {tokens(summary.claimed_length)}",
            covered(lengths, summary.claimed_length),
            "where the claimed length ends",
        )
    return HeatMap(
        title="Retrieval at every length and depth",
        corner="depth",
        columns=tuple(map(tokens, lengths)),
        rows=tuple(map(percent, summary.depths)),
        fields=tuple(
            tuple(_field(by_place[length, depth], task) for length in lengths)
            for depth in summary.depths
        ),
        holds="hits/judged answers",
        below=tuple(
            (name, tuple(say(column) for column in summary.columns), tone)
            for name, say, tone in BELOW
        ),
        bands=(
            MapBand("certain", covered(lengths, effective.certain), strong=True),
            MapBand(
                "possible",
                covered(lengths, effective.possible),
                open_end=effective.open_end,
                tip="nothing failed as far as was asked"
                if effective.open_end
                else "no length up to here fails",
            ),
        ),
        line=limit,
        whiskers={
            f"all depths of a length, interval: {summary.interval}": _whiskers(summary),
            "its worst depth": _whiskers(summary, worst=True),
        },
        threshold=(
            effective.threshold,
            f"threshold {percent(effective.threshold)}: {effective.threshold_rule}",
        ),
        verdicts=tuple(column.verdict for column in summary.columns),
        legend=(*legend, f"Intervals: {summary.interval}."),
        tips=tips,
    )


def map_table(summary: RunSummary) -> Table:
    """The map as a table: hits of judged answers with their intervals, and the lines under it."""
    by_place = {(cell.length, cell.depth): cell.share for cell in summary.cells}
    rows = [
        (percent(depth), [_with_interval(by_place[length, depth]) for length in summary.lengths])
        for depth in summary.depths
    ]
    rows += [(name.strip(), [say(column) for column in summary.columns]) for name, say, _ in BELOW]
    columns = [Column("Depth", of=lambda row: row[0])]
    columns += [
        Column(tokens(length), of=lambda row, at=at: row[1][at])  # type: ignore[misc]
        for at, length in enumerate(summary.lengths)
    ]
    caption = f"Hits of judged answers, and intervals ({summary.interval})"
    return Table(columns, rows, caption=caption, key="map")


def mark_of(cell: CellSummary) -> Mark:
    """Return what the field of `cell` shows; the first of what can be is shown.

    ERROR counts before OVERFLOW, and that before the answers that could not be judged.
    """
    if cell.share.judged:
        return Mark.SHARE
    for outcome in (*UNANSWERED, Outcome.OVERFLOW, *UNJUDGED):
        if cell.outcomes.get(outcome, 0):
            return Mark(outcome.value.lower())
    return Mark.UNASKED


def flag(cell: CellSummary) -> str:
    """Return the flag of a field with a share, or none.

    ``!`` some errors, ``^`` some overflows, ``~`` some that could not be judged.
    """
    if not cell.share.judged:
        return ""
    if any(cell.outcomes.get(outcome, 0) for outcome in UNANSWERED):
        return "!"
    if cell.outcomes.get(Outcome.OVERFLOW, 0):
        return "^"
    return "~" if any(cell.outcomes.get(outcome, 0) for outcome in UNJUDGED) else ""


def covered(lengths: tuple[int, ...], limit: int | None) -> int:
    """Return how many of the ascending `lengths` are at most `limit`; 0 for None."""
    return 0 if limit is None else bisect_right(lengths, limit)


def interval(share: Share) -> str:
    """Return the interval in whole per cent, ``84-100%``; ``-`` if nothing is judged."""
    return f"{100 * share.low:.0f}-{100 * share.high:.0f}%" if share.judged else "-"


def fraction(share: Share) -> str:
    """Return ``hits/judged``; ``-`` if nothing is judged."""
    return f"{share.hits}/{share.judged}" if share.judged else "-"


def further(effective: EffectiveLength, unit: str) -> str:
    """What more trials may do for the first length that is not certain."""
    count = effective.more_trials
    what = f"{tokens(count)} more {unit}{'s' * (count > 1)}{' a cell' * (unit == 'trial')}"
    return f"about {what} would make the next length certain, if it goes on so"


def _field(cell: CellSummary, task: str) -> MapField:
    mark = mark_of(cell)
    text, word, _ = WORDS.get(mark, (fraction(cell.share), "", ""))
    suffix = "" if task == "single" else f",,,{task}"
    return MapField(
        cell.share.value,
        text,
        _tip(cell),
        f"#cell={cell.length},{cell.depth!r}{suffix}",
        flag(cell),
        word,
        mark.name.lower(),
    )


def _tip(cell: CellSummary) -> str:
    """A field in words: place, hits with interval, every outcome, log-probability."""
    lines = [f"{tokens(cell.length)} tokens, depth {percent(cell.depth)}"]
    if cell.share.judged:
        lines.append(_in_words(cell.share))
    counted = [f"{name} {cell.outcomes[name]}" for name in Outcome if cell.outcomes.get(name)]
    lines.append(", ".join(counted) or "not asked yet")
    if cell.asked < cell.planned:
        lines.append(f"{cell.asked} of {cell.planned} asked")
    if cell.mean_log_probability is not None:
        lines.append(f"mean log-probability {cell.mean_log_probability:.2f}")
    return "\n".join(lines)


def _in_words(share: Share) -> str:
    if not share.judged:
        return "nothing judged"
    return f"{share.hits} of {share.judged} hits, 95 % interval {interval(share)}"


def _with_interval(share: Share) -> str:
    return f"{fraction(share)} {interval(share)}" if share.judged else "-"


def _worst(column: LengthSummary) -> str:
    if column.worst_depth is None:
        return "-"
    return "alike" if column.alike else percent(column.worst_depth)


def _whiskers(summary: RunSummary, *, worst: bool = False) -> tuple[Whisker, ...]:
    found = []
    for at, column in enumerate(summary.columns):
        share = column.worst if worst else column.pooled
        if share.value is not None:
            tip = _whisker_tip(column, worst=worst)
            found.append(Whisker(at, share.value, share.low, share.high, tip))
    return tuple(found)


def _whisker_tip(column: LengthSummary, *, worst: bool) -> str:
    place = f"{tokens(column.length)} tokens"
    if worst and column.worst_depth is not None:
        depth = percent(column.worst_depth)
        which = f"every depth alike, {depth} too" if column.alike else f"worst depth {depth}"
        return f"{place}, {which}: {_in_words(column.worst)}"
    return f"{place}, all depths: {_in_words(column.pooled)}"
