"""What joining two documents does, in the terminal and as JSON values."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from ropewalk.explain.join import Join, Reading
from ropewalk.report.text import clip, visible

SCHEMA = "ropewalk.explain.join/1"
_EQUAL = 1e-4


def join_lines(name: str, join: Join) -> Iterator[str]:
    """B alone, then each way of joining, in 80 columns of ASCII."""
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
    if own:
        yield f"{'':<18}{'loss of B':>14}{'logits: mean':>16}{'most':>12}"
    else:
        heads = ("A's value", "B's value", "misled", "logits: mean", "most")
        yield f"{'':<18}" + "".join(
            f"{h:>{w}}" for h, w in zip(heads, (11, 11, 10, 16, 12), strict=True)
        )
    for reading in (join.alone, *join.readings):
        yield _line(reading, number)
    yield ""
    yield from _meaning(join)


def join_json(name: str, join: Join) -> dict[str, object]:
    """All of it as plain JSON values."""
    return {"schema": SCHEMA, "model": name, **asdict(join)}


def _line(reading: Reading, number: int) -> str:
    change = f"{reading.mean:>16.2g}{reading.most:>12.2g}"
    if reading.value_a is None or reading.value_b is None:
        return f"{reading.way:<18}{reading.loss:>14.4f}{change}"
    misled = f"{reading.misled} of {number}"
    return f"{reading.way:<18}{reading.value_a:>11.2f}{reading.value_b:>11.2f}{misled:>10}{change}"


def _meaning(join: Join) -> Iterator[str]:
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


def _wrapped(text: str, hang: int = 0) -> list[str]:
    return textwrap.wrap(
        text, 80, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )
