"""Where everything of the HTML heat map stands: numbers for the template, in SVG pixels.

The map (lengths across, depths down), the bars of the effective length and the pooled chart
share their columns, so that one look goes straight down.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.proof.cells import Outcome
from ropewalk.proof.summary import CellSummary, LengthSummary, RunSummary, Share
from ropewalk.report import heatmap
from ropewalk.report.heatmap import Mark
from ropewalk.short import short

LABEL = 66
"""Width of the row labels, left of the first column."""
GAP = 3
"""Space between two fields."""
TOP = 46
"""Height above the first row: caption of the claimed length, then the lengths."""
BARS = 54
"""Height of the bars of the effective length."""
CHART = 132
"""Height of the pooled chart's scale, 0 to 100 %."""
_WHOLE = 560
_WORDS = {
    Mark.UNASKED: "–",
    Mark.OVERFLOW: "over",
    Mark.ERROR: "error",
    Mark.TRUNCATED: "cut",
    Mark.REFUSED: "refused",
    Mark.EMPTY: "empty",
}


@short
@dataclass(frozen=True, slots=True)
class FieldBox:
    """One field: its box, colours, text, tooltip, and the link that opens its prompts."""

    x: float
    y: float
    row: int
    column: int
    fill: str
    ink: str
    text: str
    tip: str
    link: str
    mark: str


@short
@dataclass(frozen=True, slots=True)
class Bar:
    """An interval in the chart: x of its line, y of value, low and high, and its tooltip."""

    x: float
    value: float
    low: float
    high: float
    tip: str


@short
@dataclass(frozen=True, slots=True)
class Figure:
    """The whole drawing; every number is in SVG pixels."""

    width: float
    height: float
    column_width: float
    row_height: float
    box_width: float
    box_height: float
    columns: tuple[tuple[float, str, str], ...]
    """Middle, length, verdict of each column."""
    rows: tuple[tuple[float, str], ...]
    """Middle and depth of each row."""
    fields: tuple[FieldBox, ...]
    certain: float
    """Right end of the certain bar; that of the left edge when no length is certain."""
    possible: float
    claimed: float | None
    claimed_anchor: str
    bars_top: float
    chart_top: float
    threshold: float
    pooled: tuple[Bar, ...]
    worst: tuple[Bar, ...]


def figure(summary: RunSummary, task: str = "single") -> Figure:
    """Return where everything of the map of `summary` stands; fields link to prompts of `task`."""
    lengths, depths = summary.lengths, summary.depths
    column_width = min(116.0, max(60.0, _WHOLE // len(lengths)))
    row_height = 36.0 if len(depths) <= 7 else 29.0
    map_bottom = TOP + row_height * len(depths)
    chart_top = map_bottom + BARS + 22

    def edge(limit: int | None) -> float:
        return LABEL + column_width * heatmap.columns_within(lengths, limit) - GAP

    middles = [LABEL + column_width * i + (column_width - GAP) / 2 for i in range(len(lengths))]
    claimed = None if summary.claimed_length is None else edge(summary.claimed_length) + GAP / 2
    width = LABEL + column_width * len(lengths) + 8
    return Figure(
        width=width,
        height=chart_top + CHART + 44,
        column_width=column_width,
        row_height=row_height,
        box_width=column_width - GAP,
        box_height=row_height - GAP,
        columns=tuple(
            (x, heatmap.tokens(column.length), column.verdict)
            for x, column in zip(middles, summary.columns, strict=True)
        ),
        rows=tuple(
            (TOP + row_height * i + (row_height - GAP) / 2, heatmap.percent(depth))
            for i, depth in enumerate(depths)
        ),
        fields=tuple(_fields(summary, column_width, row_height, task)),
        certain=edge(summary.effective.certain),
        possible=edge(summary.effective.possible),
        claimed=claimed,
        claimed_anchor="end" if claimed is not None and claimed > width / 2 else "start",
        bars_top=map_bottom + 8,
        chart_top=chart_top,
        threshold=_height(chart_top, summary.effective.threshold),
        pooled=tuple(_bars(summary, middles, chart_top, worst=False)),
        worst=tuple(_bars(summary, middles, chart_top, worst=True)),
    )


def _fields(
    summary: RunSummary, column_width: float, row_height: float, task: str
) -> list[FieldBox]:
    cells = heatmap.by_place(summary)
    fields = []
    suffix = "" if task == "single" else f",,,{task}"
    for row, depth in enumerate(summary.depths):
        for column, length in enumerate(summary.lengths):
            cell = cells[length, depth]
            mark = heatmap.mark_of(cell)
            value = cell.share.value
            fill = "" if value is None else heatmap.colour(value)
            fields.append(
                FieldBox(
                    x=LABEL + column_width * column,
                    y=TOP + row_height * row,
                    row=row,
                    column=column,
                    fill=fill,
                    ink=heatmap.ink(fill) if fill else "",
                    text=_WORDS.get(mark, heatmap.fraction(cell.share) + heatmap.flag(cell)),
                    tip=tip(cell),
                    link=f"#cell={length},{depth!r}{suffix}",
                    mark=mark.name.lower(),
                )
            )
    return fields


def tip(cell: CellSummary) -> str:
    """Return a field in words: place, hits with interval, every outcome, log-probability."""
    lines = [f"{heatmap.tokens(cell.length)} tokens, depth {heatmap.percent(cell.depth)}"]
    if cell.share.judged:
        lines.append(in_words(cell.share))
    counted = [f"{name} {cell.outcomes[name]}" for name in Outcome if cell.outcomes.get(name)]
    lines.append(", ".join(counted) or "not asked yet")
    if cell.asked < cell.planned:
        lines.append(f"{cell.asked} of {cell.planned} asked")
    if cell.mean_log_probability is not None:
        lines.append(f"mean log-probability {cell.mean_log_probability:.2f}")
    return "\n".join(lines)


def in_words(share: Share) -> str:
    """Return ``3 of 4 hits, 95 % interval 30-95%``, or that nothing is judged."""
    if not share.judged:
        return "nothing judged"
    return f"{share.hits} of {share.judged} hits, 95 % interval {heatmap.interval(share)}"


def _bars(summary: RunSummary, middles: list[float], chart_top: float, *, worst: bool) -> list[Bar]:
    bars = []
    for x, column in zip(middles, summary.columns, strict=True):
        share = column.worst if worst else column.pooled
        if share.value is None:
            continue
        value, low, high = (_height(chart_top, at) for at in (share.value, share.low, share.high))
        place = x + (9 if worst else -3)
        bars.append(Bar(place, value, low, high, _bar_tip(column, worst=worst)))
    return bars


def _bar_tip(column: LengthSummary, *, worst: bool) -> str:
    place = f"{heatmap.tokens(column.length)} tokens"
    if worst and column.worst_depth is not None:
        depth = heatmap.percent(column.worst_depth)
        which = f"every depth alike, {depth} too" if column.alike else f"worst depth {depth}"
        return f"{place}, {which}: {in_words(column.worst)}"
    return f"{place}, all depths: {in_words(column.pooled)}"


def _height(chart_top: float, value: float) -> float:
    return round(chart_top + CHART * (1 - value), 1)
