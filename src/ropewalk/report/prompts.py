"""The page of a run folder: its report with the exact prompts, in fewer than 300,000 bytes.

The map, the numbers, the audit, the versions and the command need no JavaScript. The prompts are
packed (`prompt_pool`) and unpacked by the browser. What does not fit gives way in this order: full
prompts become excerpts, excerpts become the command that prints them, the answers of repeated
trials leave, the table beside the map leaves, the fields lose their texts. The page says what was
left out.

Text from models and files reaches the page through the template's escaping, with control
characters made visible, or packed in base64, from where the script puts it in as text nodes only.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from ropewalk.errors import StoreError
from ropewalk.files import write_whole
from ropewalk.findings import Audit
from ropewalk.proof.cells import UNANSWERED, UNJUDGED, Cell, Control, Outcome, Row
from ropewalk.proof.prove import Proof
from ropewalk.proof.store import Store
from ropewalk.proof.summary import RunSummary
from ropewalk.report import page, proof
from ropewalk.report.document import Document, Widget
from ropewalk.report.prompt_pool import PromptPool, Runs, deflated, excerpt
from ropewalk.report.text import clip, visible
from ropewalk.short import short

REPORT = "report.html"

SIZE_LIMIT = 300_000
"""Bytes that a page stays below."""

_SHOW_LIMIT = 2_000
_PRINTED_LIMIT = 300
_WHOLE_SHARE = 0.55
"""Share of the room that whole prompts may take when not all of them fit."""
_ROOM = 40_000
"""With less room than this for prompts, rather give up the table, then the words of fields."""
_OUTCOME_ORDER = (
    Outcome.WRONG,
    Outcome.MISS,
    *UNANSWERED,
    *UNJUDGED,
    Outcome.OVERFLOW,
    Outcome.HIT,
)


@short
@dataclass(frozen=True, slots=True)
class CellPrompt:
    """A kept answer and the prompt it belongs to.

    `text` is the exact prompt, or None where the caller did not lay it out again; `show` is the
    command that prints it.
    """

    row: Row
    text: str | None
    show: str


class _Kind(IntEnum):
    """How much of a prompt the page holds; the script knows these numbers."""

    NONE = 0
    EXCERPT = 1
    WHOLE = 2


def write_report(found: Proof) -> Path:
    """Write `report.html` into the run folder and return its path.

    Raises StoreError when the folder cannot be written, MissingPartError without jinja2.
    """
    html = folder_html(found.folder, found.rows, found.summary, found.tasks, found.audit)
    path = found.folder / REPORT
    write_whole(path, html)
    return path


def folder_html(
    folder: Path,
    rows: Iterable[Row],
    summary: RunSummary,
    tasks: Mapping[str, RunSummary],
    audit: Audit | None = None,
) -> str:
    """The page of what lies in a run folder. Raises as `write_report`."""
    show = f"ropewalk show {shlex.quote(str(folder))} --cell"
    with Store.read(folder) as store:
        prompts = [
            CellPrompt(row, store.prompt_text(row.prompt_hash), f"{show} {cell_name(row.cell)}")
            for row in rows
        ]
    return proof_html(summary, prompts, tasks=tasks, audit=audit)


def cell_name(cell: Cell) -> str:
    """A cell as `ropewalk show --cell` takes it: 8000,25,0, or 0,0,0,needle-only for a control.

    The name of a task other than the single needle stands last.
    """
    name = f"{cell.length},{100 * cell.depth:g},{cell.trial}"
    if cell.control is not Control.NONE:
        name += f",{cell.control}"
    return name if cell.task == "single" else f"{name},{cell.task}"


def proof_html(
    summary: RunSummary,
    prompts: Sequence[CellPrompt],
    *,
    tasks: Mapping[str, RunSummary] | None = None,
    audit: Audit | None = None,
) -> str:
    """The report as HTML of fewer than `SIZE_LIMIT` bytes; `tasks` get a map each.

    Raises MissingPartError without jinja2, and StoreError if even the barest map is too large.
    """

    def made(detail: Mapping[str, bool], reader: Widget) -> Document:
        return proof.document(summary, tasks=tasks, audit=audit, reader=reader, **detail)

    return fitted(made, summary, prompts)


def fitted(
    made: Callable[[Mapping[str, bool], Widget], Document],
    summary: RunSummary,
    prompts: Sequence[CellPrompt],
) -> str:
    """The page of the document that `made` gives, with as much of the prompts as fits.

    `made` takes how much of the map there may be, and the reader of prompts.
    """
    for tips, table in ((True, True), (True, False), (False, False)):
        detail = {"tips": tips, "table": table}
        bare = page.html(made(detail, _reader({"rows": "", "pool": ""}, 0, len(prompts))))
        budget = SIZE_LIMIT - len(bare.encode()) - 200
        if budget < _ROOM and tips:
            continue
        while budget > 0:
            data, listed = _packed(prompts, budget)
            whole = page.html(made(detail, _reader(data, listed, len(prompts))))
            over = len(whole.encode()) - SIZE_LIMIT + 1
            if over <= 0:
                return whole
            budget -= over + budget // 20
        if len(bare.encode()) < SIZE_LIMIT:
            return bare
    raise StoreError(
        f"a report of {len(summary.lengths)} lengths by {len(summary.depths)} depths would exceed "
        f"{SIZE_LIMIT:,} bytes; ask for fewer lengths or depths, or export the results as CSV"
    )


def _reader(data: Mapping[str, str], listed: int, answers: int) -> Widget:
    """The part of the page that unpacks and shows prompts."""
    shown = {"listed": listed, "answers": answers}
    return Widget("prompts.html.j2", shown, "prompts.js", data)


def _packed(prompts: Sequence[CellPrompt], budget: int) -> tuple[dict[str, str], int]:
    """Return the answers and their prompts in about `budget` characters, and how many answers."""
    ordered = _by_interest(prompts)
    listed = len(ordered)
    rows = deflated(_json([_row(p, _Kind.NONE, []) for p in ordered]))
    while len(rows) > budget // 2 and listed:
        listed = min(listed - 1, listed * budget // (2 * len(rows)))
        rows = deflated(_json([_row(p, _Kind.NONE, []) for p in ordered[:listed]]))
    ordered = ordered[:listed]
    room = (budget - len(rows)) * 95 // 100
    pool, texts = _pooled(ordered, room)
    rows = deflated(_json([_row(p, *text) for p, text in zip(ordered, texts, strict=True)]))
    return {"rows": rows, "pool": pool.packed()}, listed


def _pooled(
    ordered: Sequence[CellPrompt], room: int
) -> tuple[PromptPool, list[tuple[_Kind, Runs]]]:
    """Return a pool of `room` characters: every prompt whole, or some whole and some excerpts."""
    pool = PromptPool(room)
    whole: list[tuple[_Kind, Runs]] = []
    for prompt in ordered:
        runs = [] if prompt.text is None else pool.add([prompt.text])
        if runs is None:
            break
        whole.append((_Kind.WHOLE if runs else _Kind.NONE, runs))
    else:
        return pool, whole
    # A part of the room is kept, so that as many prompts as possible can be read at all.
    pool = PromptPool(room)
    texts: list[tuple[_Kind, Runs]] = []
    for prompt in ordered:
        runs = None if prompt.text is None else pool.add([prompt.text], share=_WHOLE_SHARE)
        texts.append((_Kind.NONE, []) if runs is None else (_Kind.WHOLE, runs))
    for i, prompt in enumerate(ordered):
        if prompt.text is not None and texts[i][0] is _Kind.NONE:
            runs = pool.add(excerpt(prompt.text, prompt.row.value))
            texts[i] = (_Kind.NONE, []) if runs is None else (_Kind.EXCERPT, runs)
    return pool, texts


def _by_interest(prompts: Sequence[CellPrompt]) -> list[CellPrompt]:
    """Order prompts: one of each cell first, failures before hits, then further trials."""
    by_outcome = sorted(
        prompts, key=lambda p: (_OUTCOME_ORDER.index(p.row.answer.outcome), p.row.cell.trial)
    )
    seen: dict[tuple[int, float, Control, str], int] = {}
    ranked = []
    for order, prompt in enumerate(by_outcome):
        cell = prompt.row.cell
        place = (cell.length, cell.depth, cell.control, cell.task)
        seen[place] = seen.get(place, -1) + 1
        ranked.append((seen[place], order))
    return [by_outcome[order] for _, order in sorted(ranked)]


def _row(prompt: CellPrompt, kind: _Kind, runs: Runs) -> dict[str, object]:
    """An answer by the names under which the script reads it."""
    row, cell, answer = prompt.row, prompt.row.cell, prompt.row.answer
    log_probability: float | str | None = None
    if answer.log_probability is not None:
        # JSON has no infinity.
        finite = math.isfinite(answer.log_probability)
        log_probability = (
            round(answer.log_probability, 3) if finite else str(answer.log_probability)
        )
    return {
        "length": cell.length,
        "depth": cell.depth,
        "trial": cell.trial,
        "control": cell.control.value,
        "task": cell.task,
        "outcome": answer.outcome.value,
        "log_probability": log_probability,
        "printed": visible(clip(answer.printed, _PRINTED_LIMIT), newlines=True),
        "actual_length": row.actual_length,
        "actual_depth": round(row.actual_depth, 5),
        "key": row.key,
        "value": row.value,
        "seconds": round(answer.seconds, 2),
        "prompt_hash": row.prompt_hash[:12],
        "show": clip(prompt.show, _SHOW_LIMIT),
        "kind": int(kind),
        "runs": runs,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
