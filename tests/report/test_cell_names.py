"""A cell's name leads back to its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk.cli.show import find_row
from ropewalk.errors import UsageError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row
from ropewalk.report.prompts import cell_name

FOLDER = Path("run")


def row(cell: Cell) -> Row:
    return Row(cell, cell.length, cell.depth, "k", "1", Answer(Outcome.HIT, 0.0, "1", 0.1), "h")


ROWS = [
    row(Cell(8000, depth, trial, control))
    for depth in (0.0, 1 / 3, 0.666, 2 / 3, 0.67, 1.0)
    for trial in range(2)
    for control in Control
]


@pytest.mark.parametrize("each", ROWS, ids=lambda r: cell_name(r.cell))
def test_the_name_that_a_report_gives_finds_its_own_answer(each: Row) -> None:
    assert find_row(ROWS, cell_name(each.cell), FOLDER) is each


def test_names_are_short_and_in_percent() -> None:
    assert cell_name(Cell(8000, 0.25, 3)) == "8000,25,3"
    assert cell_name(Cell(0, 0.0, 0, Control.NEEDLE_ONLY)) == "0,0,0,needle-only"


@pytest.mark.parametrize(
    "name",
    ["", "8000", "8000,25", "8000,25,x", "8000,125,0", "8000,nan,0", "8000,25,0,end,0", "a,b"],
)
def test_nonsense_is_answered_with_how_to_write_it(name: str) -> None:
    with pytest.raises(UsageError, match="write LENGTH,DEPTH,TRIAL"):
        find_row(ROWS, name, FOLDER)


@pytest.mark.parametrize("name", ["8000,25,0", "8000,0,2", "4000,0,0"])
def test_a_cell_without_an_answer_is_said_to_have_none(name: str) -> None:
    with pytest.raises(UsageError, match=f"holds no answer for --cell {name}"):
        find_row(ROWS, name, FOLDER)
