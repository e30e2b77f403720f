"""Two runs side by side: in the terminal, as JSON values, and as one HTML file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from ropewalk.proof.diff import DiffPart, RunDiff
from ropewalk.proof.statistics.paired import MeanDifference
from ropewalk.report import page
from ropewalk.report.layout import Piece, Prose, Table, lines
from ropewalk.report.text import clip, visible

WIDTH = 80
_FACT_LIMIT = 300
JSON_FORMAT = 1
"""Raised whenever a name in the JSON changes its meaning or goes."""

_HEAD = ("", "pairs", "both", "A only", "B only", "neither", "p", "log-prob. A - B", "p")
_WIDTHS = (13, 6, 6, 7, 7, 8, 8, 17, 8)


def diff_lines(found: RunDiff, width: int = WIDTH) -> Iterator[str]:
    """The comparison, line by line, in `width` columns, WIDTH at most."""
    yield from lines(_pieces(found), min(width, WIDTH))


def _pieces(found: RunDiff) -> Iterator[Piece]:
    for label, folder in (("A", found.a), ("B", found.b)):
        yield f"{label}: {visible(clip(folder, _FACT_LIMIT))}"
    for name, a, b in found.differing:
        yield f"   {visible(name)}: A {_fact(a)}, B {_fact(b)}"
    if not found.differing:
        yield "   the same model, schedule and settings"
    yield ""
    rows = [_HEAD, _cells("all", found.overall)]
    rows += [_cells(f"{part.length:,}", part) for part in found.lengths]
    rows += [_cells(f"depth {100 * (part.depth or 0):g} %", part) for part in found.depths]
    yield Table([_row(row) for row in rows])
    yield ""
    yield from _wrapped(found.sentence)
    yield from _wrapped(notes(found))


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


def diff_json(found: RunDiff) -> dict[str, object]:
    """The comparison as plain JSON values, under a schema's name."""
    values = _plain(found)
    if not isinstance(values, dict):
        raise TypeError("a comparison is written as an object")
    return {"schema": f"ropewalk.proof.diff/{JSON_FORMAT}", **values}


def diff_html(found: RunDiff) -> str:
    """The comparison as one HTML page. Raises MissingPartError without jinja2."""
    style = page.asset("prove.css")
    rows = [("all", found.overall)]
    rows += [(f"{part.length:,} tokens", part) for part in found.lengths]
    rows += [(f"depth {100 * (part.depth or 0):g} %", part) for part in found.depths]
    return (
        page.environment()
        .get_template("prove_diff.html.j2")
        .render(
            found=found,
            rows=[(label, part, mean(part.difference)) for label, part in rows],
            differing=[
                (n, clip(a, _FACT_LIMIT), clip(b, _FACT_LIMIT)) for n, a, b in found.differing
            ],
            notes=notes(found),
            p_value=p_value,
            style=page.trusted(style),
            style_hash=page.policy_hash(style),
        )
    )


def p_value(p: float) -> str:
    """A p-value to two digits, with a star where it is below 0.05."""
    text = "<1e-4" if p < 1e-4 else f"{p:.2g}"
    return f"{text} *" if p < 0.05 else text


def mean(difference: MeanDifference | None) -> str:
    """A mean difference with the reach of its interval."""
    if difference is None:
        return "-"
    if difference.high is None:
        return f"{difference.value:+.3f}"
    return f"{difference.value:+.3f} +-{difference.high - difference.value:.3f}"


def _cells(label: str, part: DiffPart) -> tuple[str, ...]:
    counts = (part.pairs, part.both, part.only_a, part.only_b, part.neither)
    return (
        label,
        *(f"{count:,}" for count in counts),
        p_value(part.p_outcomes),
        mean(part.difference),
        p_value(part.p_difference),
    )


def _row(cells: tuple[str, ...]) -> list[str]:
    first, *others = cells
    fields_ = [first.ljust(_WIDTHS[0])]
    return fields_ + [each.rjust(size) for each, size in zip(others, _WIDTHS[1:], strict=True)]


def _fact(text: str) -> str:
    return visible(clip(text, _FACT_LIMIT))


def _wrapped(text: str) -> Iterator[Piece]:
    yield Prose(visible(text), hyphens=True)


def _plain(value: object) -> object:
    """Dataclasses and tuples as what json.dumps takes; no number here is infinite but as a text."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        if isinstance(value, DiffPart):
            return {**named, "pairs": value.pairs, "significant": value.significant}
        return named
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
