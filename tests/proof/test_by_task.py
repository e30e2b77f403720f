"""Answers of several tasks are kept apart, and each is measured from its own chance level."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ropewalk.cli.show import find_row
from ropewalk.errors import UsageError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row
from ropewalk.proof.facts import by_task, without_guessing
from ropewalk.report.run_folder import cell_name
from ropewalk.report.task_text import print_tasks, task_lines

FACTS = {
    "lengths": "100,200",
    "depths": "0.0,1.0",
    "trials": "6",
    "controls": "0",
    "tasks": "single,order,documents",
}


def rows_of(task: str, hits: int) -> list[Row]:
    """Twelve answers a length; `hits` of them right at 100 tokens, none at 200."""
    rows = []
    for length in (100, 200):
        for number in range(12):
            cell = Cell(length, float(number % 2), number // 2, task=task)
            right = length == 100 and number < hits
            outcome = Outcome.HIT if right else Outcome.MISS
            answer = Answer(outcome, -1.0, "", 1.0)
            name = f"{task}{length}{number}"
            rows.append(Row(cell, length, cell.depth, "k", "v", answer, name))
    return rows


def test_each_task_has_a_summary_of_its_own_rows() -> None:
    rows = [*rows_of("order", 12), *rows_of("single", 6), *rows_of("documents", 3)]
    found = by_task(rows, FACTS)
    assert list(found) == ["single", "order", "documents"]
    hits = {name: each.columns[0].pooled.hits for name, each in found.items()}
    assert hits == {"single": 6, "order": 12, "documents": 3}
    assert all(each.columns[0].pooled.judged == 12 for each in found.values())


def test_guessing_is_taken_out_at_every_length() -> None:
    found = by_task([*rows_of("order", 4), *rows_of("documents", 3)], FACTS)
    # Four of twelve is what guessing among three scores.
    assert without_guessing("order", found["order"]) == pytest.approx({100: 0.0, 200: -0.5})
    assert without_guessing("documents", found["documents"]) == {}


def test_several_tasks_are_printed_as_maps_and_a_table() -> None:
    found = by_task([*rows_of("order", 12), *rows_of("single", 6)], FACTS)
    file = io.StringIO()
    print_tasks(Console(file=file, width=80), found)
    text = file.getvalue()
    assert text.index("task single") < text.index("task order") < text.index("guessing taken out")
    assert text.count("verdict") == 2
    lines = task_lines(found)
    assert lines[1].split() == ["task", "chance", "100", "200"]
    assert lines[2].split() == ["single", "0%", "50%", "0%"]
    assert lines[3].split() == ["order", "33%", "100%", "-50%"]
    one = io.StringIO()
    print_tasks(Console(file=one, width=80), by_task(rows_of("single", 6), FACTS))
    assert "task single" not in one.getvalue()


def test_a_cell_of_a_task_is_found_by_the_name_it_is_shown_with() -> None:
    rows = [*rows_of("order", 12), *rows_of("single", 6)]
    rows.append(replace(rows[0], cell=replace(rows[0].cell, control=Control.END)))
    for row in rows:
        assert find_row(rows, cell_name(row.cell), Path("folder")) is row
    with pytest.raises(UsageError, match="not understood"):
        find_row(rows, "100,0,0,orders", Path("folder"))
