"""Who found most without training, and who is told apart from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ropewalk.proof.cells import Answer, Cell, Outcome, Row
from ropewalk.proof.statistics import wilson
from ropewalk.report.chapters import _without_training


def chapter(name: str, hits: int, asked: int = 20) -> Any:
    """A chapter of which the first `hits` prompts of 1,024 tokens were found."""
    rows = [
        Row(cell, 1024, 0.0, "k", str(i), Answer(outcome, -1.0, "", 1.0), repr(cell))
        for i in range(asked)
        for outcome in [Outcome.HIT if i < hits else Outcome.MISS]
        for cell in [Cell(1024, 0.0, i)]
    ]
    return SimpleNamespace(
        title=f"{name}, no training",
        proof=SimpleNamespace(rows=rows),
        share=lambda _: wilson(hits, asked),
    )


def test_what_chance_may_do_is_said_and_equal_figures_lead_together() -> None:
    found = [chapter("linear", 0), chapter("yarn", 19), chapter("base", 20)]
    assert _without_training(found, 1024) == (
        "Most found without training at 1,024: base, 20/20; by chance it could as well be yarn "
        "(19/20)."
    )
    found = [chapter("linear", 0), chapter("yarn", 20), chapter("base", 20)]
    assert _without_training(found, 1024) == (
        "Most found without training at 1,024: yarn and base, 20/20 each."
    )


def test_a_difference_is_told_apart_from_six_prompts_on() -> None:
    # McNemar's exact test: 2 / 2^5 is above 0.05, 2 / 2^6 is below.
    for fewer in range(1, 12):
        said = _without_training([chapter("a", 20), chapter("b", 20 - fewer)], 1024)
        assert ("by chance" in said) == (fewer < 6)
