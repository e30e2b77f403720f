"""What joining two documents does, in the terminal and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ropewalk.explain.join import JoinLeak, JoinReading
from ropewalk.report.layout import Piece, Prose, Table, lines
from ropewalk.report.text import clip, visible

WIDTH = 80
SCHEMA = "ropewalk.explain.join/1"
_EQUAL = 1e-4


def join_lines(name: str, join: JoinLeak, width: int = WIDTH) -> Iterator[str]:
    """B alone, then each way of joining, in ASCII of `width` columns, WIDTH at most."""
    yield from lines(_pieces(name, join), min(width, WIDTH))


def _pieces(name: str, join: JoinLeak) -> Iterator[Piece]:
    number = len(join.pairs)
    pairs = "1 pair of documents" if number == 1 else f"{number} pairs of documents"
    own = join.alone.value_a is None
    asked = "" if own else ", which state one fact differently; B's is asked for"
    yield from _wrapped(
        f"{visible(name)}, {pairs}{asked}. The boundary token is {visible(join.boundary)}. A "
        "stands before B in one row; each way keeps what the one above it has."
    )
    first = join.pairs[0]
    yield ""
    yield from _wrapped(f"A: {visible(clip(first.a, 200))}", hang=3)
    yield from _wrapped(f"B: {visible(clip(first.b, 200))}", hang=3)
    yield ""
    heads: tuple[str, ...]
    widths: tuple[int, ...]
    if own:
        heads, widths = ("loss of B", "logits: mean", "most"), (14, 16, 12)
    else:
        heads = ("A's value", "B's value", "misled", "logits: mean", "most")
        widths = (11, 11, 10, 16, 12)
    table = [[" " * 18, *(f"{h:>{w}}" for h, w in zip(heads, widths, strict=True))]]
    table += [_row(reading, number) for reading in (join.alone, *join.readings)]
    yield Table(table)
    yield ""
    yield from _meaning(join)


def join_json(name: str, join: JoinLeak) -> dict[str, object]:
    """All of it as plain JSON values."""
    return {"schema": SCHEMA, "model": name, **asdict(join)}


def _row(reading: JoinReading, number: int) -> list[str]:
    change = (f"{reading.mean:>16.2g}", f"{reading.most:>12.2g}")
    if reading.value_a is None or reading.value_b is None:
        return [f"{reading.way:<18}", f"{reading.loss:>14.4f}", *change]
    values = (f"{reading.value_a:>11.2f}", f"{reading.value_b:>11.2f}")
    return [f"{reading.way:<18}", *values, f"{f'{reading.misled} of {number}':>10}", *change]


def _meaning(join: JoinLeak) -> Iterator[Piece]:
    nothing, masked = join.readings[0], join.readings[-1]
    if join.alone.value_a is not None:
        yield from _wrapped(
            "Values are natural logarithms of their probability where B's is asked for; misled "
            "are pairs in which A's is the likelier."
        )
    yield from _wrapped("Logits: by how much B's differ from those of B alone.")
    if masked.most <= _EQUAL < nothing.most:
        boundary, reset = (each.mean / nothing.mean for each in join.readings[1:3])
        yield from _wrapped(
            "Nothing but the mask keeps A out of B: the mean change with a boundary token is "
            f"{boundary:.0%}, and with positions reset {reset:.0%}, of what it is with nothing "
            "between."
        )
    if masked.most > _EQUAL:
        yield from _wrapped(
            f"With the mask B's logits still differ by up to {masked.most:.2g}: this model does "
            "not read a document behind another as it reads it alone, be it that rounding "
            "differs, or that it does not take the mask or the positions that it is given."
        )


def _wrapped(text: str, hang: int = 0) -> Iterator[Piece]:
    yield Prose(text, rest=" " * hang)
