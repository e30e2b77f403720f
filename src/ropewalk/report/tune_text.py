"""A tuning run in the terminal and as JSON values, and its curve in characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING

from ropewalk.report.layout import Command, Drawn, Piece, Table, lines
from ropewalk.report.text import visible

if TYPE_CHECKING:
    from ropewalk.extension.tune.session import Tuned
    from ropewalk.proof.summary import Share

JSON_FORMAT = 1
"""Raised whenever a name in the JSON changes its meaning or goes."""
_LABEL = 8
WIDTH = 80
_CURVE = 72


def curve_lines(losses: Sequence[float], width: int, height: int) -> list[str]:
    """A curve of `losses` in ASCII, `width` x `height` characters with its scale; [] without any.

    A column is the mean of its steps.
    """
    if not losses:
        return []
    columns = min(len(losses), max(1, width - _LABEL - 1))
    edges = [round(i * len(losses) / columns) for i in range(columns + 1)]
    means = [math.fsum(losses[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    rows = [[" "] * columns for _ in range(height)]
    for column, value in enumerate(means):
        share = (high - value) / (high - low) if high > low else 0.5
        rows[round(share * (height - 1))][column] = "*"
    labels = {0: f"{high:.3f}", height - 1: f"{low:.3f}"}
    return [
        f"{labels.get(i, ''):>{_LABEL - 1}} |{''.join(row).rstrip()}" for i, row in enumerate(rows)
    ]


def _curve(losses: Sequence[float], width: int) -> Iterator[str]:
    for line in curve_lines(losses, min(_CURVE, width - 2), 8):
        yield f"  {line}"


def data_words(done: Tuned) -> list[str]:
    """What was read, a sentence for each length of row."""
    found = []
    for length, about in done.about["data"].items():
        said = f"rows of {int(length):,} tokens: {about['rows']:,} taken"
        if "fill" in about:
            said += (
                f" of {about['documents']:,} documents, {100 * about['fill']:.1f} % full, the "
                f"longest piece {about['longest']:,} tokens"
            )
            if about["longest"] < int(length):
                said += f": no distance beyond {about['longest'] - 1:,} was trained"
        if about["readings"] > 1:
            said += f"; the data was read {about['readings']} times"
        found.append(said)
    asked = done.about["asked"]
    if len(done.steps) < asked:
        found.append(
            f"the time given ended training at step {len(done.steps)} of {asked}, where the rate "
            f"was {done.steps[-1].rate:.2e}"
        )
    return found


def proof_rows(done: Tuned) -> list[tuple[int, str, str]]:
    """For every proved length: the share of hits before and after, with what was asked."""
    if done.proofs is None:
        return []
    before = {each.length: each for each in done.proofs.before.summary.columns}
    rows = []
    for column in done.proofs.after.summary.columns:
        old = before.get(column.length)
        rows.append(
            (column.length, "-" if old is None else _share(old.pooled), _share(column.pooled))
        )
    return rows


def _share(share: Share) -> str:
    if not share.judged:
        return "-"
    shares = (share.hits / share.judged, share.low, share.high)
    value, low, high = (f"{100 * each:.0f}" for each in shares)
    return f"{value} % ({low}-{high})"


def tune_lines(done: Tuned, width: int = WIDTH) -> Iterator[str]:
    """What came of the run, line by line, in `width` columns."""
    yield from lines(_pieces(done), width)


def _pieces(done: Tuned) -> Iterator[Piece]:
    about, steps = done.about, done.steps
    yield f"{visible(about['title'])}: {about['trained']:,} of {about['parameters']:,} parameters"
    if steps:
        seconds = math.fsum(each.seconds for each in steps)
        read = sum(each.read for each in steps)
        yield (
            f"  {len(steps)} steps, {read:,} tokens read, {read / seconds:,.0f} a second; loss "
            f"{steps[0].loss:.4f} at the first step, {steps[-1].loss:.4f} at the last"
        )
        yield Drawn(lambda width: _curve([each.loss for each in steps], width))
    for words in data_words(done):
        yield f"  {words}"
    yield f"  {visible(done.gate.sentence)}"
    rows = proof_rows(done)
    if rows:
        table = [(f"  {'length':>10}", f"  {'before':>16}", f"  {'after':>16}")]
        table += [(f"  {length:>10,}", f"  {old:>16}", f"  {new:>16}") for length, old, new in rows]
        yield Table(table)
    yield Command(f"model: {visible(str(done.model))}", "")
    if done.adapter is not None:
        yield Command(f"adapter: {visible(str(done.adapter))}", "")


def tune_json(done: Tuned) -> dict[str, object]:
    """The run as plain JSON values, under a schema's name."""
    gate = {
        name: value if not isinstance(value, float) or math.isfinite(value) else None
        for name, value in asdict(done.gate).items()
    }
    return {
        "schema": f"ropewalk.tune.result/{JSON_FORMAT}",
        "model": str(done.model),
        "adapter": None if done.adapter is None else str(done.adapter),
        **done.about,
        "steps": [asdict(each) for each in done.steps],
        "gate": {**gate, "share": done.gate.share, "passed": done.gate.passed},
        "proof": [
            {"length": length, "before": old, "after": new} for length, old, new in proof_rows(done)
        ],
    }
