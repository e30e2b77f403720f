"""A learned position table in the terminal: how far it was trained, norms, distances, heat map.

Readable in 80 columns and without colour: every field of the map is its cosine in hundredths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ropewalk.report import scale
from ropewalk.report.layout import NARROWEST, Piece, Prose, lines
from ropewalk.tables.positions_table import PositionTable

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 80
_LABEL = 17
_MAP = 18
"""Positions across and down the map."""
_FIELD = 4
_MOST_RANGES = 8


def position_lines(found: PositionTable, title: str, width: int = WIDTH) -> Iterator[str]:
    """Everything but the map, line by line, in `width` columns, WIDTH at most; `title` is safe to
    print.
    """
    yield from lines(_pieces(found, title), min(width, WIDTH))


def _pieces(found: PositionTable, title: str) -> Iterator[Piece]:
    n = found.positions
    behind = f" behind {found.offset} rows that serve none" if found.offset else ""
    yield f"{title}: {n:,} positions of {found.units.shape[1]:,} numbers{behind}"
    yield ""
    yield from _fact("effective rows", effective_words(found))
    yield from _fact("by this rule", found.end.definition)
    if found.end.apart:
        more = f"{len(found.end.apart)} before the end fall away too: {ranges(found.end.apart)}"
        yield from _fact("apart", more)
    if found.step is not None:
        yield from _fact("step", step_words(found))
    yield from _fact("norms", norm_words(found))
    for name, rows in (("zero rows", found.zero), ("not finite", found.not_finite)):
        if rows:
            yield from _fact(name, f"{len(rows)}, without a direction: {ranges(rows)}")
    yield from _fact("spectrum", spectrum_words(found))
    yield ""
    yield "mean cosine of all pairs at a distance, and with the mean of all rows taken off"
    yield f"{'distance':>10}{'pairs':>10}{'cosine':>9}{'mean off':>10}"
    for distance, pairs, cosine, centred in profile_rows(found):
        yield f"{distance:>10,}{pairs:>10,}{_cosine(cosine):>9}{_cosine(centred):>10}"


def map_lines(found: PositionTable, width: int = WIDTH) -> Iterator[Text]:
    """The map of cosines between positions, coloured where the terminal has colours."""
    from rich.text import Text

    room = max(width, NARROWEST)
    at = spaced(found.positions, min(_MAP, (room - 6) // _FIELD))
    title = f"cosine between positions, in hundredths ({len(at)} of {found.positions:,})"
    yield from map(Text, lines([title], room))
    yield Text(
        " " * 6
        + "".join(
            f"{p:>{_FIELD}}" if p < 10_000 else f"{round(p / 1000):>{_FIELD - 1}}k" for p in at
        ),
        style="dim",
    )
    for position, row in zip(at, found.similarity(at).tolist(), strict=True):
        line = Text(f"{position:>6}", style="dim")
        for value in row:
            if value != value:
                line.append("-".rjust(_FIELD))
                continue
            fill = scale.colour((value + 1) / 2)
            shown = f"{round(100 * value):>{_FIELD}}"
            line.append(shown, style=f"{scale.ink(fill)} on {fill}")
        yield line


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


def document(found: PositionTable) -> dict[str, object]:
    """The same for `--json`; null stands for what a row without a direction does not have."""
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


def _fact(name: str, text: str) -> Iterator[Piece]:
    yield Prose(text, name.ljust(_LABEL), " " * _LABEL, hyphens=True)
