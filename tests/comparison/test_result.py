"""The page of documentation says of the kept result what stands in it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
KEPT = (ROOT / "benchmarks" / "results" / "compare.md").read_text(encoding="utf-8")


def test_every_figure_of_the_page_stands_in_the_kept_result() -> None:
    said = PAGE[PAGE.index("## What was reproduced") :]
    figures = re.findall(r"\b\d\.\d{3}\b|\b\d+ of 192|\b\d+(?= %)", said)
    assert len(figures) > 15
    kept = KEPT.replace("\n", " ")
    for figure in figures:
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", kept), figure


def test_the_page_calls_reproduced_what_the_result_does() -> None:
    kept = re.sub(r"\s+", " ", KEPT)
    said = re.sub(r"\s+", " ", PAGE)
    found = re.findall(r"- \*([A-Z][^*]*)\*: (not reproduced|reproduced)", said)
    assert len(found) == 5
    for statement, verdict in found:
        assert re.search(rf"{statement}[^:]*: {verdict.upper()}", kept), statement
