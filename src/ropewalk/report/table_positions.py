"""A learned position table as a document: how far it was trained, norms, distances, heat map.

On a page the heat map is painted by a script of its own, and can be read with the mouse or the
arrow keys; in a terminal every field is its cosine in hundredths.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
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
    HeatMap,
    MapField,
    Prose,
    Table,
    Widget,
    in_terminal,
    on_page,
)
from ropewalk.short import short

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.positions_table import PositionTable

WIDTH = 80
_LABEL = 17
_MAP, PAGE_MAP = 11, 512
"""Positions across and down the map, in a terminal and on a page at most."""
_MOST_RANGES = 8


@short
@dataclass(frozen=True, slots=True)
class AtDistance:
    """Pairs of positions so far apart: how many, their mean cosine, the same with the mean off."""

    distance: int
    pairs: int
    cosine: float | None
    centred: float | None


def document(found: PositionTable, *, title: str, line: str) -> Document:
    """The whole report; `title` names the model, `line` says what was read of which file."""
    n = found.positions
    behind = f" behind {found.offset} rows that serve none" if found.offset else ""
    columns = (
        Column("distance", 10, attrgetter("distance"), "{:,}", align=">"),
        Column("pairs", 10, attrgetter("pairs"), "{:,}"),
        Column("cosine", 9, attrgetter("cosine"), "{:.3f}"),
        Column("mean off", 10, attrgetter("centred"), "{:.3f}"),
    )
    blocks: tuple[Block, ...] = (
        f"{title}: {n:,} positions of {found.units.shape[1]:,} numbers{behind}",
        "",
        on_page(
            Prose(f"Effective rows: {effective_words(found)}.", verdict=True), _numbers_of(found)
        ),
        Details(tuple(_details(found)), _LABEL),
        "",
        "mean cosine of all pairs at a distance, and with the mean of all rows taken off",
        Table(columns, tuple(profile_rows(found)), key="profile"),
        "",
        in_terminal(*_map(found)),
        on_page(Heading("Cosine between positions", narrow=True), _widget(found)),
        on_page(Heading("Curves", narrow=True), *_charts(found)),
        "",
        Prose(line, hyphens=False),
    )
    question = f"What do the learned positions of {title} hold?"
    return Document(title, blocks, "ropewalk table positions", question, WIDTH)


def _numbers_of(found: PositionTable) -> Details:
    effective, width = found.end.effective, f"of {found.spectrum.numel():,} numbers"
    return Details(
        (
            Detail("Positions", f"{found.positions:,}", note=width),
            Detail("Effective rows", "unknown" if effective is None else f"{effective:,}"),
            Detail(
                "Axes for 90 % of the variance",
                f"{found.axes_for(0.9):,}",
                note=f"participation ratio {found.participation:.1f}",
            ),
            Detail(
                "Cosine of neighbours",
                f"{float(found.profile[1]):.3f}",
                note="mean of all pairs at distance 1",
            ),
        ),
        large=True,
    )


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


def _map(found: PositionTable) -> Iterator[Block]:
    """Cosines between positions, in hundredths."""
    at = spaced(found.positions, _MAP)
    names = tuple(map(str, at))
    fields = tuple(tuple(map(_field, row)) for row in found.similarity(at).tolist())
    title = f"cosine between positions, in hundredths ({len(at)} of {found.positions:,})"
    yield title
    yield HeatMap(title, "", names, names, fields, shades=False, ends=("-1", "1"))


def _field(cosine: float) -> MapField:
    if cosine != cosine:
        return MapField(None, "-")
    return MapField((cosine + 1) / 2, f"{round(100 * cosine)}")


def _widget(found: PositionTable) -> Widget:
    at = spaced(found.positions, PAGE_MAP)
    few = f"{len(at)} of {found.positions:,} positions, evenly spaced from the first to the last."
    every = f"All {found.positions:,} positions."
    data = {
        "at": at,
        "cosines": _packed(found.similarity(at)),
        "colours": [scale.colour(i / 254) for i in range(255)],
    }
    shown = {
        "lead": few if len(at) < found.positions else every,
        "swatches": [(scale.colour(i / 20), 9 * i) for i in range(21)],
    }
    return Widget("table_positions.html.j2", shown, "table_positions.js", data)


def _packed(cosines: Tensor) -> str:
    """Cosines from -1 to 1 as one byte each, 0 to 254, in base64; 255 stands for NaN."""
    import torch

    scaled = ((cosines + 1) * 127).round()
    held = torch.nan_to_num(scaled, nan=255.0).to(torch.uint8)
    return base64.b64encode(held.contiguous().numpy().tobytes()).decode()


def _charts(found: PositionTable) -> Iterator[Chart]:
    n, effective = found.positions, found.end.effective
    ticks = tuple((float(p), f"{p:,}") for p in spaced(n, 5))
    mark = (effective - 0.5, f"effective {effective:,}") if effective and effective < n else None
    norms = ChartLine("norm", _points(range(n), found.norms))
    yield Chart("Norm of each position", (norms,), ticks, low=0.0, form="{:.2f}", mark=mark)
    yield Chart(
        "Cosine with the row before",
        (ChartLine("cosine", _points(range(n), found.beside)),),
        ticks,
        "Trained neighbours are alike; rows that no text reached are not.",
        low=0.0,
        high=1.0,
        form="{:.2f}",
        mark=mark,
    )
    yield Chart(
        "Mean cosine of all pairs at a distance",
        (
            ChartLine("as they are", _points(range(1, n), found.profile)),
            ChartLine("mean off", _points(range(1, n), found.centred_profile), second=True),
        ),
        ticks,
        low=0.0,
        high=1.0,
        form="{:.2f}",
    )


def _points(at: Iterable[int], values: Tensor) -> tuple[tuple[float, float | None], ...]:
    held = values.tolist()
    return tuple((float(p), None if held[p] != held[p] else held[p]) for p in at)


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


def profile_rows(found: PositionTable) -> Iterator[AtDistance]:
    """Distances doubling from 1."""
    distance, there = 1, found.units.any(1)
    while distance < found.positions:
        pairs = int((there[distance:] & there[:-distance]).sum())
        cosines = (found.profile[distance], found.centred_profile[distance])
        yield AtDistance(distance, pairs, *(None if c.isnan() else float(c) for c in cosines))
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
    """The same as plain values; null stands for what a row without a direction does not have."""
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
