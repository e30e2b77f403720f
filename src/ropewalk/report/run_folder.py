"""The HTML report of a run folder, with the exact prompt of every kept answer."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from ropewalk.files import write_whole
from ropewalk.findings import Audit, to_json
from ropewalk.proof.cells import Cell, Control, Row
from ropewalk.proof.prove import Proof
from ropewalk.proof.store import Store
from ropewalk.proof.summary import RunSummary
from ropewalk.report import audit as audits
from ropewalk.report.lines import text_lines
from ropewalk.report.prove_html import CellPrompt, render_html

REPORT = "report.html"

AUDIT_WIDTH = 96
"""Characters a line of the audit in the report."""


def write_report(proof: Proof) -> Path:
    """Write `report.html` into the run folder and return its path.

    Raises StoreError when the folder cannot be written, MissingPartError without jinja2.
    """
    html = folder_html(proof.folder, proof.rows, proof.summary, proof.tasks, proof.audit)
    path = proof.folder / REPORT
    write_whole(path, html)
    return path


def folder_html(
    folder: Path,
    rows: Iterable[Row],
    summary: RunSummary,
    tasks: Mapping[str, RunSummary],
    audited: Audit | None = None,
) -> str:
    """The report of what lies in a run folder. Raises as `write_report`."""
    show = f"ropewalk show {shlex.quote(str(folder))} --cell"
    with Store.read(folder) as store:
        prompts = [
            CellPrompt(row, store.prompt_text(row.prompt_hash), f"{show} {cell_name(row.cell)}")
            for row in rows
        ]
    audit, text = None, ""
    if audited is not None:
        audit = to_json(audited)
        text = "\n".join(text_lines(audits.document(audited).blocks, AUDIT_WIDTH))
    return render_html(summary, audit=audit, audit_text=text, prompts=prompts, tasks=tasks)


def cell_name(cell: Cell) -> str:
    """A cell as `ropewalk show --cell` takes it: 8000,25,0, or 0,0,0,needle-only for a control.

    The name of a task other than the single needle stands last.
    """
    name = f"{cell.length},{100 * cell.depth:g},{cell.trial}"
    if cell.control is not Control.NONE:
        name += f",{cell.control}"
    return name if cell.task == "single" else f"{name},{cell.task}"
