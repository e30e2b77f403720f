"""A learned position table as a document: how far it was trained, norms, distances, cosines.

Readable in 80 columns and without colour: every field of the terminal's map is its cosine in
hundredths. On a page the map is painted by a script and can be read with the mouse or the arrow
keys.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ropewalk.report import scale
from ropewalk.report.document import (
    Block,
    Chart,
    ChartLine,
    Column,
    Detail,
    Details,
    Document,
    Heading,
    Prose,
    Table,
    Widget,
    in_terminal,
    on_page,
)
from ropewalk.tables.positions_table import PositionTable

if TYPE_CHECKING:
    from torch import Tensor

MAP_POSITIONS = 512
"""Positions across and down the page's map at most."""
CURVE_POINTS = 1024
"""Points of a curve at most."""
_MAP = 18
"""Positions across and down the terminal's map."""
_MOST_RANGES = 8


def document(found: PositionTable, title: str, line: str) -> Document:
    """The report; `title` names the model, `line` says what was read of which file."""
    n = found.positions
    behind = f" behind {found.offset} rows that serve none" if found.offset else ""
    head = f"{title}: {n:,} positions of {found.units.shape[1]:,} numbers{behind}"
    blocks: tuple[Block, ...] = (
        on_page(
            Prose(f"Effective rows: {effective_words(found)}.", verdict=True), _numbers_of(found)
        ),
        in_terminal(head, ""),
        on_page(*_map_widget(found), Heading("Curves", narrow=True), *_charts(found)),
        on_page(Heading("The numbers")),
        Details(tuple(_details(found)), 17),
        "",
        Prose("mean cosine of all pairs at a distance, and with the mean of all rows taken off"),
        _profile(found),
        "",
        in_terminal(*_map(found)),
        in_terminal(""),
        Prose(line),
    )
    question = f"What do the learned positions of {title} hold?"
    return Document(f"{title}: its learned positions", blocks, "ropewalk table positions", question)


def _numbers_of(found: PositionTable) -> Details:
    effective = found.end.effective
    behind = f", behind {found.offset} rows that serve none" if found.offset else ""
    axes = f"{found.axes_for(0.9):,}"
    return Details(
        (
            Detail("Positions", f"{found.positions:,}",
                   note=f"of {found.spectrum.numel():,} numbers{behind}"),
            Detail("Effective rows", "unknown" if effective is None else f"{effective:,}",
                   note="by the rule below"),
            Detail("Axes for 90 % of the variance", axes,
                   note=f"participation ratio {found.participation:.1f}"),
            Detail("Cosine of neighbours", f"{float(found.profile[1]):.3f}",
                   note="mean of all pairs at distance 1"),
        ),
        large=True,
    )  # fmt: skip


def _details(found: PositionTable) -> Iterator[Detail]:
    yield Detail("effective rows", effective_words(found), found.end.effective)
    yield Detail("by this rule", found.end.definition)
    if found.end.apart:
        more = f"{len(found.end.apart)} before the end fall away too: {ranges(found.end.apart)}"
        yield Detail("apart", more)
    if found.step is not None:
        yield Detail("step", step_words(found))
    yield Detail("norms", norm_words(found))
    for name, rows in (("zero rows", found.zero), ("not finite", found.not_finite)):
        if rows:
            yield Detail(name, f"{len(rows)}, without a direction: {ranges(rows)}")
    yield Detail("spectrum", spectrum_words(found))


def _profile(found: PositionTable) -> Table:
    columns = (
        Column("distance", 10, lambda row: row[0], "{:,}", ">"),
        Column("pairs", 10, lambda row: row[1], "{:,}"),
        Column("cosine", 9, lambda row: row[2], _cosine),
        Column("mean off", 10, lambda row: row[3], _cosine),
    )
    return Table(columns, list(profile_rows(found)), key="distances")


def _map(found: PositionTable) -> Iterator[Block]:
    """Cosines between positions, painted where the terminal has colours."""
    at = spaced(found.positions, _MAP)
    yield f"cosine between positions, in hundredths ({len(at)} of {found.positions:,})"

    def value(place: int) -> Callable[[tuple[int, list[float]]], float | None]:
        return lambda row: None if row[1][place] != row[1][place] else row[1][place]

    def tone(place: int) -> Callable[[tuple[int, list[float]]], float | str]:
        return lambda row: "" if row[1][place] != row[1][place] else (row[1][place] + 1) / 2

    columns = [Column("", 6, lambda row: row[0], align=">", tone=lambda _: "dim", key="position")]
    columns += [
        Column(_short(p), 4, value(i), lambda v: str(round(100 * v)), tone=tone(i), key=str(p))
        for i, p in enumerate(at)
    ]
    cosines: list[list[float]] = found.similarity(at).tolist()
    yield Table(columns, list(zip(at, cosines, strict=True)), head="dim", key="cosines",
                less=[_short(p) for p in at[:0:-1]])  # fmt: skip


def _short(position: int) -> str:
    return str(position) if position < 10_000 else f"{round(position / 1000)}k"


def _map_widget(found: PositionTable) -> Iterator[Block]:
    n, at = found.positions, spaced(found.positions, MAP_POSITIONS)
    which = f"All {n:,} positions."
    if len(at) < n:
        which = f"{len(at)} of {n:,} positions, evenly spaced from the first to the last."
    lead = f"{which} Point at a place, or move with the arrow keys."
    yield Heading("Cosine between positions", lead, narrow=True)
    shades = [(scale.colour(i / 20), 9 * i) for i in range(21)]
    data = {
        "at": at,
        "cosines": _packed(found.similarity(at)),
        "colours": [scale.colour(i / 254) for i in range(255)],
    }
    yield Widget("table_positions.html.j2", {"shades": shades}, "table_positions.js", data)


def _packed(cosines: Tensor) -> str:
    """Cosines from -1 to 1 as one byte each, 0 to 254, in base64; 255 stands for NaN."""
    import torch

    scaled = ((cosines + 1) * 127).round()
    held = torch.nan_to_num(scaled, nan=255.0).to(torch.uint8)
    return base64.b64encode(held.contiguous().numpy().tobytes()).decode()


def _charts(found: PositionTable) -> Iterator[Chart]:
    n, at = found.positions, spaced(found.positions, CURVE_POINTS)
    effective = found.end.effective
    mark = (effective - 0.5, f"effective {effective:,}") if effective and effective < n else None
    ticks = tuple((float(p), f"{p:,}") for p in spaced(n, 5))
    distances = [d for d in at if d]

    def line(
        name: str, places: Sequence[int], values: Tensor, *, second: bool = False
    ) -> ChartLine:
        held = [float(values[p]) for p in places]
        points = ((float(p), None if v != v else v) for p, v in zip(places, held, strict=True))
        return ChartLine(name, tuple(points), second=second)

    norms = line("norm", at, found.norms)
    yield Chart("Norm of each position", (norms,), ticks, low=0.0, form="{:.3g}", mark=mark)
    yield Chart(
        "Cosine with the row before",
        (line("cosine", at, found.beside),),
        ticks,
        "Trained neighbours are alike; rows that no text reached are not.",
        0.0,
        1.0,
        "{:.2f}",
        mark=mark,
    )
    yield Chart(
        "Mean cosine of all pairs at a distance",
        (
            line("as it is", distances, found.profile),
            line("mean taken off", distances, found.centred_profile, second=True),
        ),
        ticks,
        low=0.0,
        high=1.0,
        form="{:.2f}",
    )


def effective_words(found: PositionTable) -> str:
    """How many positions were trained, as far as the rows tell."""
    effective, n = found.end.effective, found.positions
    if effective is None:
        return "cannot be told from these rows"
    if effective == n:
        return f"all {n:,}: no end falls away"
    if not effective:
        return f"0 of {n:,}"
    fall = f"the {n - effective:,} rows from position {effective:,} on fall away"
    if n - effective == 1:
        fall = f"the last row, position {effective:,}, falls away"
    return f"{effective:,} of {n:,}; {fall}"


def step_words(found: PositionTable) -> str:
    """Where the rows before the end jump."""
    step = found.step
    if step is None:
        return "none"
    return (
        f"near position {step.position:,} the {step.what} goes from {step.before:.3f} to "
        f"{step.after:.3f}, {step.times:.1f} times as far as such jumps usually reach: training "
        "may have changed its length there"
    )


def norm_words(found: PositionTable) -> str:
    """Median, and the positions of the extremes."""
    import torch

    norms = found.norms
    low = int(torch.nan_to_num(norms, nan=torch.inf).argmin())
    high = int(torch.nan_to_num(norms, nan=-torch.inf).argmax())
    return (
        f"median {float(norms.nanmedian()):.4g}, least {float(norms[low]):.4g} (position "
        f"{low:,}), greatest {float(norms[high]):.4g} (position {high:,})"
    )


def spectrum_words(found: PositionTable) -> str:
    """How many axes the positions need."""
    width = found.spectrum.numel()
    if not float(found.spectrum.sum()):
        return "no variance: all rows are one"
    return (
        f"{found.axes_for(0.9)} of {width:,} axes carry 90 % of the variance, "
        f"{found.axes_for(0.99)} carry 99 %; participation ratio {found.participation:.1f}"
    )


def profile_rows(found: PositionTable) -> Iterator[tuple[int, int, float, float]]:
    """Distances doubling from 1: how many pairs, mean cosine, the same with the mean off."""
    distance, there = 1, found.units.any(1)
    while distance < found.positions:
        pairs = int((there[distance:] & there[:-distance]).sum())
        yield (
            distance,
            pairs,
            float(found.profile[distance]),
            float(found.centred_profile[distance]),
        )
        distance *= 2


def spaced(n: int, most: int) -> list[int]:
    """Up to `most` positions from the first to the last, evenly spaced."""
    if n <= most:
        return list(range(n))
    return [round(i * (n - 1) / (most - 1)) for i in range(most)]


def ranges(positions: Sequence[int]) -> str:
    """Ascending positions in few words: "0, 29-34"; many are shortened in the middle."""
    runs: list[list[int]] = [[positions[0], positions[0]]] if positions else []
    for before, position in pairwise(positions):
        if position == before + 1:
            runs[-1][1] = position
        else:
            runs.append([position, position])
    words = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs]
    if len(words) > _MOST_RANGES:
        half = _MOST_RANGES // 2
        left_out = len(words) - _MOST_RANGES
        words = [*words[:half], f"({left_out} more stretches)", *words[-half:]]
    return ", ".join(words)


def values(found: PositionTable) -> dict[str, object]:
    """The same as plain values; None stands for what a row without a direction does not have."""
    return {
        "positions": found.positions,
        "width": found.units.shape[1],
        "offset": found.offset,
        "effective": found.end.effective,
        "definition": found.end.definition,
        "apart": list(found.end.apart),
        "step": None
        if found.step is None
        else {
            "what": found.step.what,
            "position": found.step.position,
            "before": found.step.before,
            "after": found.step.after,
            "times": found.step.times,
        },
        "zero": list(found.zero),
        "not_finite": list(found.not_finite),
        "norms": _numbers(found.norms.tolist()),
        "cosine_with_row_before": _numbers(found.beside.tolist()),
        "mean_cosine_by_distance": _numbers(found.profile.tolist()),
        "mean_cosine_by_distance_centred": _numbers(found.centred_profile.tolist()),
        "spectrum": _numbers(found.spectrum.tolist()),
        "participation_ratio": found.participation,
    }


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [None if v != v else round(v, 9) for v in values]


def _cosine(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"
