"""A comparison as text, as JSON and as a page."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ropewalk.proof.diff import DiffPart, RunDiff
from ropewalk.proof.statistics.paired import MeanDifference
from ropewalk.report.prove_diff import diff_html, diff_json, diff_lines, p_value


@pytest.fixture
def found() -> RunDiff:
    part = DiffPart(None, None, 42, 18, 0, 0, MeanDifference(60, -0.25, -0.5, 0.0), 1e-5, 0.2, 60)
    return RunDiff(
        a="runs/one",
        b="runs/<b>two\x1b[31m",
        differing=(("rope", "as shipped", "linear:4"),),
        overall=part,
        lengths=(replace(part, length=131072, difference=None),),
        depths=(replace(part, depth=1.0, p_outcomes=0.5),),
        unpaired_a=3,
        unpaired_b=0,
        other_prompt=2,
        unjudged=1,
        without_number=0,
        by_document=False,
        sentence="A finds more <script>.",
    )


def test_every_number_stands_in_its_column(found: RunDiff) -> None:
    lines = list(diff_lines(found))
    assert max(map(len, lines)) <= 82
    overall = next(line for line in lines if line.startswith("all "))
    assert overall.split() == "all 60 42 18 0 0 <1e-4 * -0.250 +-0.250 0.2".split()
    assert next(line for line in lines if line.startswith("131,072")).split()[-2:] == ["-", "0.2"]
    assert "3 answers of A and 0 of B" in " ".join(lines)
    assert "\x1b" not in "".join(lines)


def test_the_json_holds_every_number_and_a_schema(found: RunDiff) -> None:
    document = json.loads(json.dumps(diff_json(found), allow_nan=False))
    assert document["schema"] == "ropewalk.proof.diff/1"
    assert document["overall"]["only_a"] == 18
    assert document["overall"]["pairs"] == 60
    assert document["overall"]["significant"] is True
    assert document["depths"][0]["depth"] == 1.0


def test_the_page_escapes_what_comes_from_folders_and_runs_no_script(found: RunDiff) -> None:
    html = diff_html(found)
    assert "<script" not in html
    assert "&lt;b&gt;two\\x1b" in html
    assert "default-src 'none'" in html
    assert not re.search(r"https?://", html)
    assert html.count("<tr>") == 1 + 2 + 1 + 3


@pytest.mark.parametrize(("p", "text"), [(1.0, "1"), (0.04, "0.04 *"), (2e-5, "<1e-4 *")])
def test_p_values_are_short_and_starred(p: float, text: str) -> None:
    assert p_value(p) == text
