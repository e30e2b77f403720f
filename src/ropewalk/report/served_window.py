"""A server's window as a document."""

from __future__ import annotations

from dataclasses import asdict

from ropewalk.proof.endpoint.window import ServedWindow, WindowLook
from ropewalk.report.document import Block, Column, Detail, Details, Document, Prose, Table

SCHEMA = "ropewalk.window/1"


def document(found: ServedWindow) -> Document:
    """What it reads, what it says of itself, and every prompt that was sent to find out."""
    facts = found.facts
    said = f"{facts.window:,} ({facts.window_name})" if facts.window else "nothing of its window"
    columns = (
        Column("tokens", 10, lambda look: look.length, "{:,}", align=">", key="length"),
        Column("fact at", 9, lambda look: look.depth, "{:.0%}", key="depth"),
        Column("counted", 10, lambda look: look.counted, "{:,}"),
        Column("found", 8, lambda look: look.found, lambda yes: "yes" if yes else "no"),
        Column("  read", 40, _read, align="<", key="read"),
    )
    blocks: list[Block] = [
        Prose(found.sentence, verdict=True),
        *map(Prose, found.remarks),
        "",
        Details(
            (
                Detail("it says", said),
                Detail("asked by", found.asked_by),
                Detail("lengths counted", found.lengths_counted),
                Detail("requests", str(found.requests), found.requests),
            ),
            colon=True,
        ),
        "",
        Table(columns, found.looks, key="looks", words=True),
    ]
    question = f"How much of a prompt does {found.url} read?"
    return Document(found.url, tuple(blocks), "ropewalk window", question)


def _read(look: WindowLook) -> str:
    if look.refused:
        return f"  refused: {look.refused}"
    return "  all of it" if look.whole else "  not all"


def values(found: ServedWindow) -> dict[str, object]:
    """Everything as plain JSON values, with the sentence."""
    held = {"schema": SCHEMA, **asdict(found)}
    return held | {"exact": found.exact, "sentence": found.sentence}
