"""An extension as a document: what was measured, the choice, and how to serve it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ropewalk.extension.card import schedule_lines
from ropewalk.extension.choose import TOLERANCE
from ropewalk.extension.headroom import Headrooms
from ropewalk.extension.score import Score
from ropewalk.extension.search.run import Found
from ropewalk.extension.serve import Options
from ropewalk.extension.session import Extension
from ropewalk.report.document import (
    Block,
    Column,
    Document,
    Heading,
    Prose,
    Table,
    ToCopy,
    on_page,
)
from ropewalk.report.scale import tokens
from ropewalk.report.text import clip
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.lengths import trained_length

SCHEMA = "ropewalk.extend/1"


def document(found: Extension) -> Document:
    """Tables of what was measured, why which schedule was chosen, and the lines that serve it."""
    title = clip(found.files.title, 200)
    question = f"How does {title} read longer texts?"
    return Document(title, tuple(_blocks(found, title)), "ropewalk extend", question)


def _blocks(found: Extension, title: str) -> Iterator[Block]:
    target = "" if found.after is None else f"; to {found.after.claimed.tokens:,}"
    trained = trained_length(found.before)
    guessed = "" if trained.stated else f" ({trained.source})"
    yield Prose(f"{title}: trained on {tokens(trained.tokens)} tokens{guessed}{target}")
    if found.headrooms is not None:
        yield ""
        yield from _headrooms(found.headrooms)
    if found.scores:
        yield ""
        yield from _scores(found.scores)
    if found.found is not None:
        yield ""
        yield from _search(found.found)
    yield from map(Prose, found.why)
    if found.after is not None:
        yield ""
        yield on_page(Heading("The schedule"))
        yield f"Method: {found.method}"
        for line in (*schedule_lines(found.before, found.after), *found.warnings):
            yield Prose(line, "  ")
        yield from _serving(found.options, "on the files as they were")
    if found.written is not None:
        yield ""
        yield on_page(Heading("What was written"))
        yield Prose(f"Wrote {found.written.path}: {found.written.verified}.")
        if found.written.left_out:
            yield Prose(f"Not taken along: {', '.join(found.written.left_out)}.")
        yield from _serving(found.written.serving, f"on {found.written.path.name}")
    if found.work is not None:
        yield Prose(f"Answers are kept in {found.work}.")


def _headrooms(found: Headrooms) -> Iterator[Block]:
    """Log-probabilities over gaps, a row per method and a column per headroom."""
    yield on_page(Heading("For the length itself, and for longer contexts"))
    if found.reason:
        yield Prose(
            "Every schedule is made for the length itself: prompts with a gap in their positions, "
            f"by which longer ones are compared, say nothing of this model ({found.reason})."
        )
        return
    yield Prose(
        "Schedules made for the length itself and for longer contexts: mean log-probability of a "
        "needle over gaps in positions, in nats. In ( ) costs short text more than "
        f"{TOLERANCE:.0%}; * is measured below."
    )
    rooms = sorted({each.stretch.headroom for each in found.tried})
    shown: dict[str, dict[float, str]] = {}
    for each in found.tried:
        value = f"{each.gaps:.2f}"
        text = f"({value})" if each.change > TOLERANCE else value
        by_room = shown.setdefault(each.stretch.method.name, {})
        by_room[each.stretch.headroom] = text + ("*" if each.stretch in found.chosen else " ")
    columns = [Column("", 14, lambda row: row[0], key="method")]
    columns += [
        Column(f"x{room:g} ", 12, lambda row, room=room: row[1].get(room))  # type: ignore[misc]
        for room in rooms
    ]
    yield Table(columns, list(shown.items()), key="headrooms")


def _scores(scores: tuple[Score, ...]) -> Iterator[Block]:
    lengths = sorted({row.cell.length for score in scores for row in score.rows})
    at = ", ".join(f"{length:,}" for length in lengths) or "no length"
    yield on_page(Heading("What was measured"))
    yield Prose(
        f"Facts found at {at} tokens, the mean log-probability of the true value, and the loss of "
        "short text (nats per token) against the model as it is."
    )
    columns = (
        Column("", 19, lambda score: score.name, key="name"),
        Column("found", 7, lambda score: f"{score.hits}/{score.asked}" if score.asked else None),
        Column("log-prob", 10, lambda score: score.log_probability, "{:.2f}"),
        Column("short", 9, lambda score: score.short, "{:.4f}"),
        Column("change", 9, lambda score: score.change, "{:+.2%}"),
        Column("", 0, _not_written, align="<", key="note"),
    )
    yield Table(columns, scores, words=True, key="scores")
    for score in scores:
        if score.stopped:
            yield Prose(f"{score.name}: {score.stopped}.", "  ")
        if score.candidate.how is not None:
            how = score.candidate.how
            yield Prose(
                f"{score.name}, groups of {how.group} from {how.window:,} tokens on: "
                f"{score.candidate.note}.",
                "  ",
            )


def _not_written(score: Score) -> str:
    return "not to be written" if score.candidate.how is not None else ""


def _search(found: Found) -> Iterator[Block]:
    yield on_page(Heading("The search"))
    yield Prose(
        f"{found.tries} tries. Log-probability over gaps in positions, and loss of short text:"
    )
    rows = [*found.table, ("searched", found.best.score, found.best.loss)]
    columns = (
        Column("", 19, lambda row: row[0], key="name"),
        Column("gaps", 8, lambda row: row[1], "{:.2f}"),
        Column("short", 9, lambda row: row[2], "{:.4f}"),
    )
    yield Table(columns, rows, key="search")


def _serving(options: Sequence[Options], files: str) -> Iterator[Block]:
    for each in options:
        yield ""
        yield Prose(f"{each.engine}, {files} ({each.checked}):")
        if each.line is not None:
            yield from (ToCopy(step) for step in (*each.steps, each.line))
        else:
            yield Prose(each.reason, "  ")


def values(found: Extension) -> dict[str, object]:
    """Everything that was measured and chosen; frequencies are radians per token."""
    after = found.after
    trained = trained_length(found.before)
    return {
        "schema": SCHEMA,
        "model": found.files.title,
        "trained": trained.tokens,
        "trained_source": trained.source,
        "target": None if after is None else after.claimed.tokens,
        "method": found.method,
        "schedule": None
        if after is None
        else [
            {
                "layers": group.name,
                "inv_freq": list(frequencies(group, after.claimed.tokens).inv_freq),
                "attention_factor": frequencies(group, after.claimed.tokens).attention_factor,
                "fingerprint": frequencies(group, after.claimed.tokens).fingerprint(),
            }
            for group, _ in after.rotary_groups()
        ],
        "headrooms": None
        if found.headrooms is None
        else {
            "reason": found.headrooms.reason,
            "tried": [
                {
                    "method": each.stretch.method.name,
                    "headroom": each.stretch.headroom,
                    "gaps": each.gaps,
                    "short_change": each.change,
                    "measured": each.stretch in found.headrooms.chosen,
                }
                for each in found.headrooms.tried
            ],
        },
        "scores": [_score(score) for score in found.scores],
        "search": None
        if found.found is None
        else {
            "tries": found.found.tries,
            "best": asdict(found.found.best),
            "closed_forms": [list(row) for row in found.found.table],
            "verdict": asdict(found.found.verdict),
            "wins": found.found.verdict.wins,
        },
        "why": list(found.why),
        "warnings": list(found.warnings),
        "options": [asdict(each) for each in found.options],
        "written": None
        if found.written is None
        else {**asdict(found.written), "path": str(found.written.path)},
    }


def _score(score: Score) -> dict[str, object]:
    return {
        "name": score.name,
        "writable": score.candidate.writable,
        "hits": score.hits,
        "asked": score.asked,
        "log_probability": score.log_probability,
        "short_loss": score.short,
        "short_change": score.change,
        "stopped": score.stopped,
        "cells": [
            {
                "length": row.cell.length,
                "depth": row.cell.depth,
                "trial": row.cell.trial,
                "outcome": row.answer.outcome.value,
                "log_probability": row.answer.log_probability,
            }
            for row in score.rows
        ],
    }
