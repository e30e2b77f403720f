"""A run's curve in characters and as a page, from numbers that are known."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from ropewalk.extension.tune.gate import Gate
from ropewalk.extension.tune.loop import StepResult
from ropewalk.extension.tune.session import Tuned
from ropewalk.extension.tune.training_settings import TuneSettings, parse_mix
from ropewalk.report import document_of, html, terminal, to_dict
from ropewalk.report.svg import drawings
from ropewalk.report.tune import curve_lines, loss_chart

EVIL = "<script>alert(1)</script>\x1b[31m"


SETTINGS = TuneSettings(EVIL, (Path(EVIL),), 2, Path("run"), parse_mix("64"), command=EVIL)


def tuned(losses: list[float], after: float = 3.0, most: float | None = 0.02) -> Tuned:
    steps = tuple(
        StepResult(n + 1, loss, 60, 64, 64 if n % 2 else 32, 1, 1e-3, 0.5, 0.25)
        for n, loss in enumerate(losses)
    )
    gate = Gate(EVIL, 64, 100, 3.0, after, 0.01, most)
    read = {"rows": 4, "readings": 2, "fill": 0.875, "documents": 9, "tokens": 224, "longest": 50}
    about = {
        "title": EVIL,
        "trained": 10,
        "parameters": 100,
        "processes": 1,
        "data": {"64": read},
        "asked": len(losses),
        "dtype": "bf16",
    }
    return Tuned(Path("run"), Path("run/model"), None, steps, gate, None, about, SETTINGS)


def test_the_curve_falls_from_the_first_line_to_the_last() -> None:
    lines = curve_lines([4.0, 3.0, 2.0, 1.0], 40, 4)
    assert lines == ["  4.000 |*", "        | *", "        |  *", "  1.000 |   *"]
    assert curve_lines([], 40, 4) == []
    # Of many steps a column is the mean: 100 steps in 10 columns of a straight line.
    many = curve_lines([float(n) for n in range(100)], 19, 10)
    assert many[0].startswith(" 94.500 |")
    assert [line.index("*") for line in many] == list(range(18, 8, -1))


def test_the_chart_places_each_loss_between_its_scales() -> None:
    broad, _slim = drawings(loss_chart(tuned([4.0, 3.5, 3.0, 2.0])))
    assert {curve.name for curve in broad.curves} == {"rows of 64", "rows of 32"}
    left, right, top, bottom = broad.pane.edges
    paths = {c.name: [float(n) for n in re.findall(r"[\d.]+", c.path)] for c in broad.curves}
    # Steps 1 and 3 are short: from the left edge to two thirds, the first at the top.
    half, third = (top + bottom) / 2, left + (right - left) * 2 / 3
    assert paths["rows of 32"] == pytest.approx([left, top, third, half], abs=0.06)
    assert paths["rows of 64"][2:] == pytest.approx([right, bottom], abs=0.06)
    assert [text for _, text in broad.rules] == ["2.000", "2.500", "3.000", "3.500", "4.000"]


def test_what_names_hold_is_shown_and_never_obeyed() -> None:
    done = tuned([4.0, 3.0])
    page = html(document_of(done))
    assert "<script" not in page
    assert "\x1b" not in page
    lines = terminal(document_of(done)).splitlines()
    assert "\x1b" not in "".join(lines)
    assert any("no distance beyond 49 was trained" in line for line in lines)
    assert any("87.5 % full" in line for line in lines)


@pytest.mark.parametrize(
    ("after", "most", "passed"),
    [(3.05, 0.02, True), (3.07, 0.02, False), (9.0, None, True), (math.nan, 0.02, False)],
)
def test_the_gate_is_a_share_of_the_loss_before(
    after: float, most: float | None, *, passed: bool
) -> None:
    done = tuned([4.0], after, most)
    assert done.gate.passed is passed
    if math.isfinite(after):
        told = to_dict(done)["gate"]
        assert isinstance(told, dict)
        assert told["share"] == pytest.approx((after - 3.0) / 3.0)
