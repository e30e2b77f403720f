"""Traces as text: 80 columns, long texts cut short, what differs named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ropewalk.explain.rotated import RotatedScore, Rotation
from ropewalk.explain.steps import TraceStep, step
from ropewalk.explain.trace import Trace
from ropewalk.report import document_of, terminal

PIECES = tuple(f"piece\u202e{i}" for i in range(20))
VECTORS = torch.arange(20 * 6.0).view(20, 6)


@pytest.fixture
def traced() -> Trace:
    rows = step("rows", "one row each of a table of 9 x 6", VECTORS, PIECES, model=VECTORS)
    score = RotatedScore(query=119, key=100, model=1.0, ours=1.0, against=1.0, allowed=1e-6)
    rotation = Rotation("all layers", 0, 1e4, 6, 6, "half", "default", (rows,), (score,))
    return Trace(
        name="model\x1b[31m",
        model_type="llama",
        text="a text\n" * 100,
        ids=tuple(range(20)),
        pieces=PIECES,
        steps=(rows, TraceStep("scale", "none: the rows go on as they are")),
        rotations=(rotation,),
    )


def test_a_trace_fits_80_columns_and_obeys_nothing_in_a_text(traced: Trace) -> None:
    lines = terminal(document_of(traced)).splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "piece\\u202e7" in text
    assert "piece\\u202e8" not in text
    assert "... and 12 more" in text


def test_a_trace_says_that_it_agrees_or_where_it_does_not(traced: Trace) -> None:
    assert "bit for bit" in terminal(document_of(traced))
    wrong = step("block 1", "received", VECTORS, PIECES, model=VECTORS + 0.5, allowed=1e-6)
    text = terminal(document_of(replace(traced, steps=(*traced.steps, wrong))))
    assert "differs by 5.0e-01, rounding allows 1.2e-04: DIFFERS" in text
    assert "are NOT equal" in text


def test_a_value_that_is_no_number_agrees_with_nothing() -> None:
    spoilt = step("rows", "", VECTORS, PIECES, model=VECTORS * float("nan"), allowed=1.0)
    assert spoilt.agrees is False
