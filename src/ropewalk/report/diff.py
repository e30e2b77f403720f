"""Two runs side by side as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ropewalk.proof.diff import DiffPart, RunDiff
from ropewalk.proof.statistics.paired import MeanDifference
from ropewalk.report.document import (
    Block,
    Column,
    Document,
    Heading,
    Prose,
    Table,
    in_terminal,
    on_page,
)
from ropewalk.report.text import clip
from ropewalk.report.values import plain

_FACT_LIMIT = 300
JSON_FORMAT = 1
"""Raised whenever a name in the JSON changes its meaning or goes."""


def document(found: RunDiff) -> Document:
    """What differs between two runs, their answers in pairs, and how they were tested."""
    blocks = (
        on_page(Prose(found.sentence, verdict=True), Heading("What differs between them")),
        on_page(_differing(found)),
        in_terminal(*_folders(found), ""),
        on_page(Heading("Answers in pairs")),
        _pairs(found),
        in_terminal("", Prose(found.sentence)),
        Prose(notes(found)),
    )
    question = "Two proofs on the same prompts"
    return Document("Two proofs compared", blocks, "ropewalk prove diff", question)


def values(found: RunDiff) -> dict[str, object]:
    """The comparison as plain JSON values, under a schema's name."""
    held: Any = plain(found)
    return {
        "schema": f"ropewalk.proof.diff/{JSON_FORMAT}",
        **held,
        "overall": _part(found.overall),
        "lengths": [_part(part) for part in found.lengths],
        "depths": [_part(part) for part in found.depths],
    }


def _part(part: DiffPart) -> dict[str, object]:
    held: Any = plain(part)
    return {**held, "pairs": part.pairs, "significant": part.significant}


def _folders(found: RunDiff) -> Iterator[Block]:
    for label, folder in (("A", found.a), ("B", found.b)):
        yield f"{label}: {clip(folder, _FACT_LIMIT)}"
    for name, a, b in found.differing:
        yield f"   {name}: A {clip(a, _FACT_LIMIT)}, B {clip(b, _FACT_LIMIT)}"
    if not found.differing:
        yield "   the same model, schedule and settings"


def _differing(found: RunDiff) -> Table:
    columns = (
        Column("", of=lambda row: row[0]),
        Column("A", of=lambda row: clip(row[1], _FACT_LIMIT), align="<"),
        Column("B", of=lambda row: clip(row[2], _FACT_LIMIT), align="<"),
    )
    return Table(columns, (("folder", found.a, found.b), *found.differing), words=True)


def _pairs(found: RunDiff) -> Table:
    rows = [("all", found.overall)]
    rows += [(f"{part.length:,}", part) for part in found.lengths]
    rows += [(f"depth {100 * (part.depth or 0):g} %", part) for part in found.depths]

    def of(name: str) -> Callable[[tuple[str, DiffPart]], object]:
        return lambda row: getattr(row[1], name)

    columns = (
        Column("", 13, lambda row: row[0]),
        Column("pairs", 6, of("pairs"), "{:,}"),
        Column("both", 6, of("both"), "{:,}"),
        Column("A only", 7, of("only_a"), "{:,}"),
        Column("B only", 7, of("only_b"), "{:,}"),
        Column("neither", 8, of("neither"), "{:,}"),
        Column("p", 8, of("p_outcomes"), p_value, key="p_outcomes"),
        Column("log-prob. A - B", 17, of("difference"), mean, key="difference"),
        Column("p", 8, of("p_difference"), p_value, key="p_difference"),
    )
    return Table(columns, rows, key="pairs")


def notes(found: RunDiff) -> str:
    """What was left out, and how the numbers were tested."""
    left_out = [
        f"{count:,} {words}"
        for count, words in (
            (found.unpaired_a, "answers of A and"),
            (found.unpaired_b, "of B to prompts that the other was not asked"),
        )
    ]
    said = [f"Left out: {' '.join(left_out)}"]
    if found.other_prompt:
        said.append(f"in {found.other_prompt:,} cells both were asked, but not the same prompt")
    if found.unjudged:
        said.append(f"{found.unjudged:,} pairs lack a judged answer")
    if found.without_number:
        said.append(f"{found.without_number:,} judged pairs lack a log-probability")
    unit = (
        "Questions of one document count as one: sign-flip tests over documents"
        if found.by_document
        else "p by McNemar's exact test and, for log-probabilities, by sign flips"
    )
    return (
        f"{'; '.join(said)}. {unit}; Holm's correction over all pairs, and over the lengths and "
        "depths together; * below 0.05. Intervals (+-) are Student's 95 %, each by itself."
    )


def p_value(p: float) -> str:
    """A p-value to two digits, with a star where it is below 0.05."""
    text = "<1e-4" if p < 1e-4 else f"{p:.2g}"
    return f"{text} *" if p < 0.05 else text


def mean(difference: MeanDifference) -> str:
    """A mean difference with the reach of its interval."""
    if difference.high is None:
        return f"{difference.value:+.3f}"
    return f"{difference.value:+.3f} +-{difference.high - difference.value:.3f}"
