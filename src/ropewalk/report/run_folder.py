"""The HTML report of a run folder, with the exact prompt of every kept answer."""

from __future__ import annotations

import shlex
from pathlib import Path

from ropewalk.audit import to_json
from ropewalk.files import write_whole
from ropewalk.prove.cells import Cell, Control
from ropewalk.prove.session import Proof
from ropewalk.prove.store import Store
from ropewalk.report.audit_text import audit_lines
from ropewalk.report.prove_html import CellPrompt, render_html

REPORT = "report.html"

AUDIT_WIDTH = 96
"""Characters a line of the audit in the report."""


def write_report(proof: Proof) -> Path:
    """Write `report.html` into the run folder and return its path.

    Raises StoreError when the folder cannot be written, MissingPartError without jinja2.
    """
    show = f"ropewalk show {shlex.quote(str(proof.folder))} --cell"
    with Store.read(proof.folder) as store:
        prompts = [
            CellPrompt(row, store.prompt_text(row.prompt_hash), f"{show} {cell_name(row.cell)}")
            for row in proof.rows
        ]
    audit, text = None, ""
    if proof.audit is not None:
        audit = to_json(proof.audit)
        text = "\n".join(line for line, _ in audit_lines(proof.audit, width=AUDIT_WIDTH))
    html = render_html(
        proof.summary, audit=audit, audit_text=text, prompts=prompts, tasks=proof.tasks
    )
    path = proof.folder / REPORT
    write_whole(path, html)
    return path


def cell_name(cell: Cell) -> str:
    """A cell as `ropewalk show --cell` takes it: 8000,25,0, or 0,0,0,needle-only for a control.

    The name of a task other than the single needle stands last.
    """
    name = f"{cell.length},{100 * cell.depth:g},{cell.trial}"
    if cell.control is not Control.NONE:
        name += f",{cell.control}"
    return name if cell.task == "single" else f"{name},{cell.task}"
