"""A text followed into a model, as a document: ids, rows, scale, position, q and k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from operator import attrgetter

from ropewalk.explain.rotated import RotatedScore, Rotation
from ropewalk.explain.steps import TraceStep
from ropewalk.explain.trace import Trace
from ropewalk.report.document import Block, Column, Document, Heading, Prose, Table, on_page
from ropewalk.report.text import clip, fit, visible

SHOWN = 8
"""How many vectors of a step are printed; a longer text has more of the same."""
VALUES = 4
"""How many first values of a vector are."""
_PIECE = 14


def document(trace: Trace) -> Document:
    """The whole trace, each step with how it agrees with the model's own."""
    question = f"What does {trace.name} make of a text?"
    return Document(trace.name, tuple(_blocks(trace)), "ropewalk trace", question)


def values(trace: Trace) -> dict[str, object]:
    """All of it as plain JSON values."""
    return {"schema": "ropewalk.trace/1", **asdict(trace), "agrees": trace.agrees}


def _blocks(trace: Trace) -> Iterator[Block]:
    title = f"{clip(repr(trace.text), 200)} into {trace.name} ({trace.model_type})"
    yield Prose(title, rest="")
    yield ""
    yield on_page(Heading("ids"))
    yield f"{'ids':<10}({len(trace.ids)},)"
    columns = (
        Column("", 2 + _PIECE, lambda row: row[0], _piece, key="piece"),
        Column("", 9, lambda row: row[1], key="id"),
    )
    rows = list(zip(trace.pieces, trace.ids, strict=True))[:SHOWN]
    yield Table(columns, rows, indent=2, key="ids")
    yield from _more(len(trace.ids))
    for step in trace.steps:
        yield ""
        yield on_page(Heading(step.name))
        yield from _step(step)
    for rotation in trace.rotations:
        yield ""
        yield from _rotation(rotation)
    yield ""
    yield _verdict(trace)


def _step(step: TraceStep) -> Iterator[Block]:
    shape = "" if step.shape is None else f"{step.shape} {step.dtype}, "
    yield Prose(f"{step.name:<10}{shape}{step.sentence}", rest=" " * 10)
    if step.shape is None:
        return
    rows = list(zip(step.labels, step.norms, step.values, strict=True))[:SHOWN]
    count = min([VALUES, *(len(row[2]) for row in rows)])
    columns = [
        Column("", 2 + _PIECE, lambda row: row[0], _piece, key="piece"),
        Column("|x|", 12, lambda row: row[1], "{:.4f}"),
    ]
    names = [f"x[{at}]" for at in range(count)]
    columns += [
        Column(name, 10, lambda row, at=at: row[2][at], "{:.4f}")  # type: ignore[misc]
        for at, name in enumerate(names)
    ]
    yield Table(columns, rows, less=names[::-1], indent=2, key=step.name)
    yield from _more(len(step.labels))
    if step.difference is not None and step.allowed is not None:
        yield f"  {_compared(step.difference, step.allowed, step.agrees)}"


def _rotation(rotation: Rotation) -> Iterator[Block]:
    yield Prose(
        f"rotation  block {rotation.block + 1} ({rotation.group}): {rotation.rotated} of "
        f"{rotation.head_dim} channels, base {rotation.rope_theta:,.10g}, {rotation.layout}, "
        f"scaling {rotation.scaling}",
        rest=" " * 10,
    )
    if rotation.reason:
        yield Prose(f"  not followed: {rotation.reason}", rest="  ")
        return
    for step in rotation.steps:
        yield ""
        yield from _step(step)
    yield ""
    yield from _scores(rotation.scores)


def _scores(scores: tuple[RotatedScore, ...]) -> Iterator[Block]:
    yield f"{'score':<10}q . k of head 0, last token with first: by the gap alone"
    columns = (
        Column("q at", 8, attrgetter("query"), align=">"),
        Column("k at", 7, attrgetter("key")),
        Column("gap", 7, lambda score: score.query - score.key),
        Column("model", 14, attrgetter("model"), "{:.6f}"),
        Column("ours", 14, attrgetter("ours"), "{:.6f}"),
        Column("difference", 13, attrgetter("difference"), "{:.1e}"),
        Column("", 0, attrgetter("agrees"), lambda agrees: "" if agrees else "DIFFERS", "<",
               key="agrees"),
    )  # fmt: skip
    yield Table(columns, scores, key="scores")


def _verdict(trace: Trace) -> str:
    if trace.agrees:
        return "The model's own values and ours are equal to rounding wherever both are known."
    return "The model's own values and ours are NOT equal; see the steps that differ above."


def _compared(difference: float, allowed: float, agrees: bool | None) -> str:
    if difference == 0.0:
        return "equal to the model's own, bit for bit"
    verdict = "equal to rounding" if agrees else "DIFFERS"
    return f"the model's own differs by {difference:.1e}, rounding allows {allowed:.1e}: {verdict}"


def _more(count: int) -> Iterator[str]:
    if count > SHOWN:
        yield f"  ... and {count - SHOWN} more"


def _piece(piece: str) -> str:
    return fit(visible(piece), _PIECE).rstrip()
