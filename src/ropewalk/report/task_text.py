"""Several tasks in the terminal: a map each, then one table over lengths without guessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ropewalk.proof.facts import without_guessing
from ropewalk.proof.summary import RunSummary
from ropewalk.proof.tasks.suite import TASKS
from ropewalk.report.layout import Table, lines
from ropewalk.report.prove_text import print_proof
from ropewalk.report.text import visible

if TYPE_CHECKING:
    from rich.console import Console


def print_tasks(console: Console, summaries: Mapping[str, RunSummary]) -> None:
    """Print a proof of one task as it is, and of several task by task with a table at the end."""
    if len(summaries) < 2:
        for summary in summaries.values():
            print_proof(console, summary)
        return
    for name, summary in summaries.items():
        console.print(f"task {visible(name)}", markup=False, highlight=False)
        print_proof(console, summary)
        console.print()
    for line in task_lines(summaries, console.width):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def task_lines(summaries: Mapping[str, RunSummary], width: int = 80) -> list[str]:
    """The table: a task a line, its chance level, and per length the share above guessing."""
    lengths = sorted({length for each in summaries.values() for length in each.lengths})
    rows = [[f"{'task':<16}", f"{'chance':>8}", *(f"{length:>9,}" for length in lengths)]]
    for name, summary in summaries.items():
        left = without_guessing(name, summary)
        chance = f"{TASKS[name].chance:.0%}" if name in TASKS else "?"
        shares = (f"{round(left[n], 2) + 0.0:>9.0%}" if n in left else f"{'-':>9}" for n in lengths)
        rows.append([f"{visible(name):<16}", f"{chance:>8}", *shares])
    title = "share of hits with guessing taken out (0 % is guessing, 100 % all right)"
    return list(lines([title, Table(rows)], width))
