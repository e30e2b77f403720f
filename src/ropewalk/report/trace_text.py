"""A trace in the terminal: each step with its shape, dtype, norms and first values.

Readable in 80 columns, without colour and in ASCII but for the pieces, which are a tokenizer's
own and go through `visible`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.layout import Drawn, Piece, Prose, Table, cells, fit, lines
from ropewalk.report.text import clip, visible

if TYPE_CHECKING:
    from ropewalk.explain.rotation import Rotation, Score
    from ropewalk.explain.steps import TraceStep
    from ropewalk.explain.trace import Trace

WIDTH = 80
SHOWN = 8
"""How many vectors of a step are printed; a longer text has more of the same."""
PIECE = 14


def trace_lines(trace: Trace, width: int = WIDTH) -> Iterator[str]:
    """The whole trace, line by line, in `width` columns, WIDTH at most."""
    yield from lines(_pieces(trace), min(width, WIDTH))


def _pieces(trace: Trace) -> Iterator[Piece]:
    title = f"{clip(visible(repr(trace.text)), 200)} into {trace.name} ({trace.model_type})"
    yield from _wrapped(visible(title))
    yield ""
    yield f"{'ids':<10}({len(trace.ids)},)"
    for piece, number in list(zip(trace.pieces, trace.ids, strict=True))[:SHOWN]:
        yield f"  {_piece(piece)}{number:>9}"
    yield from _more(len(trace.ids))
    for step in trace.steps:
        yield ""
        yield from _step(step)
    for rotation in trace.rotations:
        yield ""
        yield from _rotation(rotation)
    yield ""
    yield from _verdict(trace)


def _step(step: TraceStep) -> Iterator[Piece]:
    shape = "" if step.shape is None else f"{step.shape} {step.dtype}, "
    yield from _wrapped(f"{step.name:<10}{shape}{step.sentence}", hang=10)
    if step.shape is None:
        return
    yield Drawn(lambda width: _vectors(step, width))
    yield from _more(len(step.labels))
    if step.difference is not None and step.allowed is not None:
        yield f"  {_compared(step.difference, step.allowed, step.agrees)}"


def _vectors(step: TraceStep, width: int) -> Iterator[str]:
    """The first vectors of a step: norm, and as many first values as there is room for."""
    shown = list(zip(step.labels, step.norms, step.values, strict=True))[:SHOWN]
    for label, norm, values in shown:
        head = f"  {_piece(label)}  |x| {norm:>9.4f}  "
        there = values[: max(0, (width - cells(head) - len(" ...")) // 10)]
        dots = " ..." if step.shape is not None and step.shape[-1] > len(there) else ""
        yield head + "".join(f"{value:>10.4f}" for value in there) + dots


def _rotation(rotation: Rotation) -> Iterator[Piece]:
    yield from _wrapped(
        f"rotation  block {rotation.block + 1} ({visible(rotation.group)}): {rotation.rotated} of "
        f"{rotation.head_dim} channels, base {rotation.rope_theta:,.10g}, {rotation.layout}, "
        f"scaling {rotation.scaling}",
        hang=10,
    )
    if rotation.reason:
        yield from _wrapped(f"  not followed: {rotation.reason}", hang=2)
        return
    for step in rotation.steps:
        yield ""
        yield from _step(step)
    yield ""
    yield from _scores(rotation.scores)


def _scores(scores: tuple[Score, ...]) -> Iterator[Piece]:
    yield f"{'score':<10}q . k of head 0, last token with first: by the gap alone"
    heads = ("q at", "k at", "gap", "model", "ours", "difference")
    widths = (8, 7, 7, 14, 14, 13)
    table = [[f"{head:>{wide}}" for head, wide in zip(heads, widths, strict=True)]]
    for score in scores:
        gap = score.query - score.key
        places = (f"{score.query:>8}", f"{score.key:>7}", f"{gap:>7}")
        values = (f"{score.model:>14.6f}", f"{score.ours:>14.6f}", f"{score.difference:>13.1e}")
        table.append([*places, *values, "" if score.agrees else "  DIFFERS"])
    yield Table(table)


def _verdict(trace: Trace) -> Iterator[str]:
    if trace.agrees:
        yield "The model's own values and ours are equal to rounding wherever both are known."
    else:
        yield "The model's own values and ours are NOT equal; see the steps that differ above."


def _compared(difference: float, allowed: float, agrees: bool | None) -> str:
    if difference == 0.0:
        return "equal to the model's own, bit for bit"
    verdict = "equal to rounding" if agrees else "DIFFERS"
    return f"the model's own differs by {difference:.1e}, rounding allows {allowed:.1e}: {verdict}"


def _more(count: int) -> Iterator[str]:
    if count > SHOWN:
        yield f"  ... and {count - SHOWN} more"


def _piece(piece: str) -> str:
    return fit(visible(piece), PIECE)


def _wrapped(text: str, hang: int = 0) -> Iterator[Piece]:
    yield Prose(text, rest=" " * hang)
