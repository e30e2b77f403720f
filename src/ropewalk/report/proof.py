"""A proof as a document: the heat map of each task, the effective length, controls and facts.

Where the lines of the map come from is `proof_map.BELOW`; which facts of a run are shown, and in
which order, is `readable_facts`. So a further value of a length is a line in the summary and a
line there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ropewalk.findings import Audit, to_json
from ropewalk.proof.export import run_to_json
from ropewalk.proof.facts import without_guessing
from ropewalk.proof.proof import Proof
from ropewalk.proof.summary import EffectiveLength, Reason, RunSummary
from ropewalk.proof.tasks.suite import TASKS
from ropewalk.report import audit as audits
from ropewalk.report.document import (
    Block,
    Column,
    Detail,
    Details,
    Document,
    Folded,
    Heading,
    Listing,
    Prose,
    Table,
    Widget,
    in_terminal,
    on_page,
)
from ropewalk.report.lines import text_lines
from ropewalk.report.proof_map import fraction, further, heat_map, interval, map_table
from ropewalk.report.scale import percent, tokens
from ropewalk.report.text import clip

AUDIT_WIDTH = 96
"""Cells a line of the audit on the page."""

_FACT_LIMIT = 2_000
_AUDIT_LIMIT = 20_000
_LABEL = 13
_MAP_LEAD = (
    "Across: prompt length in tokens. Down: how deep the needle lies. In each field: hits of "
    "judged answers. Choose a field to read its prompts."
)


def values(found: Proof | RunSummary) -> dict[str, object]:
    """The run as plain JSON values; of a summary alone without its rows."""
    if isinstance(found, RunSummary):
        return run_to_json(found, ())
    return run_to_json(found.summary, found.rows, found.tasks)


def document(
    found: Proof | RunSummary,
    *,
    tasks: Mapping[str, RunSummary] | None = None,
    audit: Audit | None = None,
    reader: Widget | None = None,
    tips: bool = True,
    table: bool = True,
) -> Document:
    """The report of a proof, or of a summary with `tasks` and `audit`.

    On a page: `reader` shows prompts; without `tips` fields lose their words, without `table` the
    map is not there as a table.
    """
    if isinstance(found, Proof):
        tasks, audit = tasks or found.tasks, audit or found.audit
        found = found.summary
    maps = dict(tasks or {"single": found})
    if len(maps) == 1:
        maps = dict.fromkeys(maps, found)
    facts = {clip(k, 100): clip(v, _FACT_LIMIT) for k, v in readable_facts(found.facts).items()}
    title = clip(found.facts.get("name") or facts.get("model", "this model"), 200)
    blocks: list[Block] = [on_page(*_head(found, maps))]
    for number, (name, summary) in enumerate(maps.items()):
        several = name if len(maps) > 1 else ""
        blocks += _map(summary, name, several, tips=tips, table=table)
        if not number:
            blocks += _audit(audit)
        blocks += _controls(summary, name, several)
        blocks += [""] if several else []
    blocks += _guessing(maps) if len(maps) > 1 else []
    blocks += [on_page(reader)] if reader else []
    if facts:
        blocks += [in_terminal(""), on_page(Heading("How to repeat it"))]
        details = tuple(Detail(k, v, whole=k == "command") for k, v in facts.items())
        blocks.append(Details(details, _LABEL, colon=True))
    question = f"How much of its context does {title} read?"
    name = f"{title}: how much of its context it reads"
    return Document(name, tuple(blocks), "ropewalk prove", question, width=10_000)


def _head(whole: RunSummary, maps: Mapping[str, RunSummary]) -> Iterator[Block]:
    """The result in sentences, and the lengths in large numbers."""
    for name, summary in maps.items():
        task = f"{name}: " if len(maps) > 1 else ""
        yield Prose(task + summary.effective.sentence, verdict=True)
    numbers = [
        Detail("Claimed", tokens(whole.claimed_length), note=whole.claimed_source),
        Detail("Trained", tokens(whole.trained_length), note=whole.trained_source),
    ]
    if len(maps) == 1:
        effective = whole.effective
        more = further(effective, whole.unit) if effective.more_trials else ""
        open_end = "nothing failed as far as was asked" if effective.open_end else ""
        numbers.append(Detail("Effective, certain", _end(effective.certain), note=more))
        numbers.append(Detail("Effective, possible", _end(effective.possible), note=open_end))
    yield Details(tuple(numbers), large=True)


def _map(
    summary: RunSummary, task: str, several: str, *, tips: bool, table: bool
) -> Iterator[Block]:
    """The map of a task, and what it comes to."""
    found = heat_map(summary, task, tips=tips)
    if several:
        yield in_terminal(f"task {several}")
    head = f"Task {several}: {found.title}" if several else found.title
    yield on_page(Heading(head, _MAP_LEAD, narrow=True))
    yield found
    yield in_terminal("", *_result(summary))
    if summary.reasons:
        reasons = tuple(Detail("why", why(reason)) for reason in summary.reasons)
        yield Details(reasons, _LABEL)
    if table:
        yield Folded("The same as a table", (map_table(summary),))
    else:
        left_out = (
            "The map is large, so the table of its fields was left out; the CSV export has it."
        )
        yield on_page(Prose(left_out, tone="dim"))


def _result(summary: RunSummary) -> Iterator[Block]:
    effective = summary.effective
    yield Details(
        (
            _tokens("claimed", summary.claimed_length, summary.claimed_source),
            _tokens("trained", summary.trained_length, summary.trained_source),
            Detail("effective", _reach(effective), tone="bold"),
            Detail("threshold", f"{percent(effective.threshold)}, {effective.threshold_rule}"),
        ),
        _LABEL,
    )
    yield Prose(effective.sentence, rest="", tone="bold")


def _tokens(name: str, length: int | None, source: str) -> Detail:
    return Detail(name, f"{tokens(length)} tokens", length, source)


def _reach(effective: EffectiveLength) -> str:
    reach = f"[{_end(effective.certain)}, {_end(effective.possible)}] tokens, certain and possible"
    return f"{reach}, as far as was asked" if effective.open_end else reach


def _end(length: int | None) -> str:
    return "none" if length is None else tokens(length)


def why(reason: Reason) -> str:
    """What the schedule says of a length that fell short, at its worst depth."""
    depth = percent(reason.depth)
    at = f"every depth alike, {depth} too" if reason.alike else f"worst at {depth}"
    where = f"{tokens(reason.length)} tokens, {at}"
    if not reason.likely:
        return f"{where}: nothing in the schedule speaks against it."
    return f"{where}, likely because {'; '.join(reason.likely)}."


def _controls(summary: RunSummary, task: str, several: str) -> Iterator[Block]:
    if not summary.controls:
        return
    suffix = "" if task == "single" else f",{quote(task)}"

    def link(control: Any) -> str:
        return f"#cell={control.length},,,{quote(control.name)}{suffix}"

    yield in_terminal("")
    yield Heading(f"Task {several}: Controls" if several else "Controls")
    columns = (
        Column("prompt", of=lambda each: each.name, link=link),
        Column("length", of=lambda each: each.length, form=tokens),
        Column("hits", of=lambda each: fraction(each.share)),
        Column("interval", of=lambda each: interval(each.share)),
        Column("what it says", of=lambda each: each.reading, align="<"),
    )
    yield Table(columns, summary.controls, words=True, indent=2, key="controls")


def _guessing(maps: Mapping[str, RunSummary]) -> Iterator[Block]:
    """A task a line, its chance level, and per length the share of hits above guessing."""
    lengths = sorted({length for each in maps.values() for length in each.lengths})
    rows = [
        (name, TASKS[name].chance if name in TASKS else None, without_guessing(name, summary))
        for name, summary in maps.items()
    ]
    columns = [
        Column("task", 16, of=lambda row: row[0]),
        Column("chance", 8, of=lambda row: row[1], form="{:.0%}", absent="?"),
    ]
    columns += [
        Column(f"{n:,}", 9, lambda row, n=n: row[2].get(n), _whole_percent)  # type: ignore[misc]
        for n in lengths
    ]
    yield on_page(Heading("Tasks without guessing"))
    yield "share of hits with guessing taken out (0 % is guessing, 100 % all right)"
    yield Table(columns, rows, key="tasks")


def _whole_percent(share: float) -> str:
    return f"{round(share, 2) + 0.0:.0%}"


def _audit(audit: Audit | None) -> Iterator[Block]:
    """On the page, what the checkpoint says."""
    if audit is None:
        return
    text = "\n".join(text_lines(audits.document(audit).blocks, AUDIT_WIDTH))
    yield audit_part(text, to_json(audit))


def audit_part(text: str, values: Mapping[str, object]) -> Block:
    """The audit as text and as JSON, each cut where it is very long."""
    import json

    whole = json.dumps(values, indent=2, default=str)
    return on_page(
        Heading("What the checkpoint says", narrow=True),
        Listing(clip(text, _AUDIT_LIMIT)),
        Folded("Audit as JSON", (Listing(clip(whole, _AUDIT_LIMIT)),)),
    )


_SHOWN_ELSEWHERE = frozenset(
    "lengths depths trials controls tasks grown document threshold claimed claimed_source trained "
    "trained_source tokenizer predicted left_out".split()
)
_MERGED = frozenset("name model rope schedule chat recipe device dtype".split())
_LAST = ("haystack", "seed", "asked", "versions", "date", "command")


def readable_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Return what to print of the facts of a run, in order; the store keeps every fact as it is.

    The model with its weights' hash, the schedule with its fingerprint, the kind of prompts with
    the version of their layout, and where it ran; then facts that are not known here; then
    haystack, seed, totals, versions, date and the command that repeats it. What the result shows
    already is left out.
    """
    merged = {
        "model": _with(facts.get("name"), "weights", facts.get("model")),
        "schedule": _with(facts.get("rope"), "fingerprint", facts.get("schedule")),
        "prompts": _joined(facts.get("chat"), _layout(facts.get("recipe"))),
        "ran on": _joined(facts.get("device"), facts.get("dtype")),
    }
    known = _SHOWN_ELSEWHERE | _MERGED | set(_LAST)
    other = {name: text for name, text in facts.items() if name not in known}
    last = {name: facts[name] for name in _LAST if name in facts}
    return {name: text for name, text in merged.items() if text} | other | last


def _with(name: str | None, kind: str, digest: str | None) -> str:
    """A name with its digest in brackets, or whichever of them there is."""
    return f"{name} ({kind} {digest})" if name and digest else name or digest or ""


def _joined(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _layout(recipe: str | None) -> str | None:
    return recipe and f"layout {recipe}"
