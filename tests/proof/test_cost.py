"""What a plan is said to take, against counts made by hand."""

from __future__ import annotations

import pytest

from ropewalk.proof.cells import Calibrate, Cell, Prompt, Sharing
from ropewalk.proof.plan import CostModel, Prompts, make_plan
from ropewalk.proof.reading import Budget, ReadCost, default_calibrate, reading


def make_prompt(cell: Cell) -> Prompt:
    """A document of the trial up to 8 tokens before the length, and 8 of the cell's own."""
    document = range(1000 * cell.trial, 1000 * cell.trial + 400)
    # No two cells' own tokens begin alike.
    first = 10_000 + cell.length + round(100 * cell.depth)
    own = range(first, first + 8)
    ids = (*document[: max(0, cell.length - 8)], *own)
    return Prompt(cell, ids, (2,), 0, cell.depth, "key", "value", (), f"{cell}", 1)


PLAN = make_plan([100, 300], [0.25, 0.75], trials=4, control_trials=0)


def test_prompts_by_themselves_and_documents_read_once_are_counted_as_they_are() -> None:
    read = reading(PLAN, Prompts(make_prompt))
    assert read.independent == read.tokens(Sharing.NONE) == 4 * 2 * (100 + 300)
    # Of each document 292 tokens once, and four questions of 8.
    assert read.shared == read.tokens(Sharing.BRANCHES) == 4 * (292 + 4 * 8)
    assert read.saving == pytest.approx(3200 / 1296)


def test_seconds_follow_the_cost_of_every_piece() -> None:
    """At a second a token and nothing for what stands before, seconds are tokens."""
    read = reading(PLAN, Prompts(make_prompt))
    even = CostModel(per_token=1.0, per_token_squared=0.0)
    assert read.seconds(Sharing.NONE, even) == read.independent
    assert read.seconds(Sharing.PREFIX, even) == read.shared
    # By squares alone a prompt costs its length squared, in however many pieces it is read.
    squares = CostModel(per_token=0.0, per_token_squared=1.0)
    assert read.seconds(Sharing.NONE, squares) == 4 * 2 * (100**2 + 300**2)
    branches = 2 * (100**2 - 92**2) + 2 * (300**2 - 292**2)
    assert read.seconds(Sharing.BRANCHES, squares) == 4 * (292**2 + branches)


def test_an_empty_plan_saves_nothing() -> None:
    assert (ReadCost().independent, ReadCost().shared, ReadCost().saving) == (0, 0, 1.0)


def test_calibration_is_the_default_only_where_it_reads_less_than_nesting_saves() -> None:
    read = reading(PLAN, Prompts(make_prompt))
    saved = 3200 - 1296
    assert default_calibrate(read, saved - 1) is Calibrate.SHORT
    assert default_calibrate(read, saved) is Calibrate.OFF


def test_a_budget_is_one_or_two_lines_with_everything_that_is_known() -> None:
    bare = Budget(Sharing.NONE, 5, 1234, 1234)
    assert bare.lines() == ["5 prompts, 1,234 tokens to read"]
    nested = Budget(Sharing.BRANCHES, 20, 1000, 15_000, 3700.0, 90 << 20, Calibrate.SHORT, 500)
    asked, spent = nested.lines(per_million=2_000_000.0)
    assert asked == (
        "20 prompts, 1,000 tokens to read (branches: 15.0 times fewer than 15,000), and 500 "
        "to calibrate (short)"
    )
    assert spent == (
        "about 62 minutes at the pace of a short text, key-value cache: 90 MiB, "
        "price: 3,000.00; without sharing 30,000.00"
    )
    (uncalibrated,) = Budget(Sharing.BRANCHES, 20, 1000, 15_000).lines()
    assert uncalibrated.endswith("than 15,000), not calibrated")
