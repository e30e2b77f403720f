"""A proof as one HTML file: under 300,000 bytes, no network, no script but its own.

The map, the numbers, the audit, the versions and the command are plain HTML and SVG and need no
JavaScript. The prompts are packed (`prompt_pool`) and unpacked by the browser. What does not fit
gives way in this order: full prompts become excerpts, excerpts become the command that prints
them, the answers of repeated trials leave, the table beside the map leaves, the fields lose
their texts. The page says what was left out.

Text from models and files reaches the page through the template's escaping, with control
characters made visible, or packed in base64, from where the script puts it in as text nodes
only. The content security policy allows this page's own style and script, by hash, and nothing
else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ropewalk.errors import StoreError
from ropewalk.proof.cells import UNJUDGED, Control, Outcome, Row
from ropewalk.proof.summary import RunSummary
from ropewalk.report import heatmap, page, prove_figure
from ropewalk.report.fact_words import readable_facts
from ropewalk.report.prompt_pool import PromptPool, Runs, deflated, excerpt
from ropewalk.report.text import clip, visible
from ropewalk.short import short

SIZE_LIMIT = 300_000
"""Bytes that a report stays below."""

_FACT_LIMIT = 2_000
_AUDIT_LIMIT = 20_000
_PRINTED_LIMIT = 300
_WHOLE_SHARE = 0.55
"""Share of the room that whole prompts may take when not all of them fit."""
_OUTCOME_ORDER = (
    Outcome.WRONG,
    Outcome.MISS,
    Outcome.ERROR,
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


class _Detail(IntEnum):
    """How much of each field the page holds, from all to the coloured box alone."""

    BARE = 0
    TIPS = 1
    TABLE = 2


def render_html(
    summary: RunSummary,
    *,
    audit: Mapping[str, object] | None,
    audit_text: str,
    prompts: Sequence[CellPrompt],
    tasks: Mapping[str, RunSummary] | None = None,
) -> str:
    """Return the report as HTML of fewer than `SIZE_LIMIT` bytes; `tasks` get a map each.

    Raises MissingPartError without jinja2, and StoreError if even the barest map is too large.
    """
    maps = dict(tasks or {"single": summary})
    if len(maps) == 1:
        maps = dict.fromkeys(maps, summary)
    for detail in sorted(_Detail, reverse=True):
        bare = _page(
            summary, maps, audit, audit_text, detail, {"rows": "", "pool": ""}, 0, len(prompts)
        )
        budget = SIZE_LIMIT - len(bare.encode()) - 200
        # Below this there is no room for prompts: rather give up the table, then the tips.
        if budget < 40_000 and detail is not _Detail.BARE:
            continue
        while budget > 0:
            data, listed = _packed(prompts, budget)
            whole = _page(summary, maps, audit, audit_text, detail, data, listed, len(prompts))
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


def _row(prompt: CellPrompt, kind: _Kind, runs: Runs) -> list[object]:
    """Return an answer as the script reads it."""
    row, cell, answer = prompt.row, prompt.row.cell, prompt.row.answer
    log_probability: float | str | None = None
    if answer.log_probability is not None:
        # JSON has no infinity.
        finite = math.isfinite(answer.log_probability)
        log_probability = (
            round(answer.log_probability, 3) if finite else str(answer.log_probability)
        )
    return [
        cell.length,
        cell.depth,
        cell.trial,
        cell.control.value,
        answer.outcome.value,
        log_probability,
        visible(clip(answer.printed, _PRINTED_LIMIT), newlines=True),
        row.actual_length,
        round(row.actual_depth, 5),
        row.key,
        row.value,
        round(answer.seconds, 2),
        row.prompt_hash[:12],
        clip(prompt.show, _FACT_LIMIT),
        int(kind),
        runs,
        cell.task,
    ]


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def _page(
    summary: RunSummary,
    maps: Mapping[str, RunSummary],
    audit: Mapping[str, object] | None,
    audit_text: str,
    detail: _Detail,
    data: Mapping[str, str],
    listed: int,
    answers: int,
) -> str:
    environment = page.environment(
        {
            "tokens": heatmap.tokens,
            "percent": heatmap.percent,
            "fraction": heatmap.fraction,
            "interval": heatmap.interval,
            "why": heatmap.why,
            "further": heatmap.further,
        }
    )
    facts = readable_facts(summary.facts)
    style, script = page.asset("prove.css"), page.asset("prove.js")
    audit_json = "" if audit is None else json.dumps(audit, indent=2, default=str)
    return environment.get_template("prove.html.j2").render(
        whole=summary,
        maps=[
            (name, each, prove_figure.figure(each, name), heatmap.by_place(each))
            for name, each in maps.items()
        ],
        shape=prove_figure,
        facts={clip(k, 100): clip(v, _FACT_LIMIT) for k, v in facts.items()},
        title=clip(summary.facts.get("name") or facts.get("model", "this model"), 200),
        audit_text=clip(audit_text, _AUDIT_LIMIT),
        audit_json=clip(audit_json, _AUDIT_LIMIT),
        tips=detail >= _Detail.TIPS,
        table=detail >= _Detail.TABLE,
        swatches=[(heatmap.colour(i / 8), i) for i in range(9)],
        listed=listed,
        answers=answers,
        style=page.trusted(style),
        script=page.trusted(script),
        style_hash=page.policy_hash(style),
        script_hash=page.policy_hash(script),
        data=page.embedded(data),
    )
