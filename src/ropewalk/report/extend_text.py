"""An extension in the terminal: the table of what was measured, the choice, and how to serve it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ropewalk.extension.card import schedule_lines
from ropewalk.extension.choose import TOLERANCE
from ropewalk.extension.headroom import Headrooms
from ropewalk.extension.score import Score
from ropewalk.extension.search.run import Found
from ropewalk.extension.serve import Options
from ropewalk.extension.session import Extension
from ropewalk.report import scale
from ropewalk.report.layout import Command, Piece, Prose, Table, lines
from ropewalk.report.text import clip, visible
from ropewalk.rope.lengths import trained_length

WIDTH = 80


def extend_lines(found: Extension, width: int = WIDTH) -> Iterator[str]:
    """All of it, line by line, in `width` columns, WIDTH at most."""
    yield from lines(_pieces(found), min(width, WIDTH))


def _pieces(found: Extension) -> Iterator[Piece]:
    target = "" if found.after is None else f"; to {found.after.claimed.tokens:,}"
    trained = trained_length(found.before)
    guessed = "" if trained.stated else f" ({visible(trained.source)})"
    yield from _wrapped(
        f"{visible(clip(found.files.title, 200))}: trained on {scale.tokens(trained.tokens)} "
        f"tokens{guessed}{target}"
    )
    if found.headrooms is not None:
        yield ""
        yield from _headrooms(found.headrooms)
    if found.scores:
        yield ""
        yield from _table(found.scores)
    if found.found is not None:
        yield ""
        yield from _search(found.found)
    for sentence in found.why:
        yield from _wrapped(sentence)
    if found.after is not None:
        yield ""
        yield f"Method: {found.method}"
        for line in schedule_lines(found.before, found.after):
            yield from _wrapped(line, "  ")
        for warning in found.warnings:
            yield from _wrapped(warning, "  ")
        yield from _serving(found.options, "on the files as they were")
    if found.written is not None:
        yield ""
        yield from _wrapped(f"Wrote {visible(str(found.written.path))}: {found.written.verified}.")
        if found.written.left_out:
            left = ", ".join(visible(name) for name in found.written.left_out)
            yield from _wrapped(f"Not taken along: {left}.")
        name = visible(found.written.path.name)
        yield from _serving(found.written.serving, f"on {name}")
    if found.work is not None:
        yield from _wrapped(f"Answers are kept in {visible(str(found.work))}.")


def _headrooms(found: Headrooms) -> Iterator[Piece]:
    """Log-probabilities over gaps, a row a method and a column a headroom."""
    if found.reason:
        yield from _wrapped(
            "Every schedule is made for the length itself: prompts with a gap in their positions, "
            f"by which longer ones are compared, say nothing of this model ({found.reason})."
        )
        return
    yield from _wrapped(
        "Schedules made for the length itself and for longer contexts: mean log-probability of a "
        "needle over gaps in positions, in nats. In ( ) costs short text more than "
        f"{TOLERANCE:.0%}; * is measured below."
    )
    rooms = sorted({each.stretch.headroom for each in found.tried})
    table = [[f"{'':<14}", *(f"{f'x{room:g}':>11} " for room in rooms)]]
    for method in dict.fromkeys(each.stretch.method.name for each in found.tried):
        cells = [f"{method:<14}"]
        for each in found.tried:
            if each.stretch.method.name == method:
                value = f"{each.gaps:.2f}"
                told = f"({value})" if each.change > TOLERANCE else value
                cells.append(f"{told:>11}{'*' if each.stretch in found.chosen else ' '}")
        table.append(cells)
    yield Table(table)


def _table(scores: tuple[Score, ...]) -> Iterator[Piece]:
    lengths = sorted({row.cell.length for score in scores for row in score.rows})
    at = ", ".join(f"{length:,}" for length in lengths) or "no length"
    yield from _wrapped(
        f"Facts found at {at} tokens, the mean log-probability of the true value, and the loss of "
        "short text (nats a token) against the model as it is."
    )
    heads = (f"{'':<19}", f"{'found':>7}", f"{'log-prob':>10}", f"{'short':>9}", f"{'change':>9}")
    table: list[tuple[str, ...]] = [heads]
    for score in scores:
        value = score.log_probability
        hits = f"{score.hits}/{score.asked}" if score.asked else "-"
        shown = "-" if value is None else f"{value:.2f}"
        tail = "  not to be written" if score.candidate.how is not None else ""
        figures = (f"{hits:>7}", f"{shown:>10}", f"{score.short:>9.4f}", f"{score.change:>+9.2%}")
        table.append((f"{score.name:<19}", *figures, tail))
    yield Table(table, text=True)
    for score in scores:
        if score.stopped:
            yield from _wrapped(f"{score.name}: {score.stopped}.", "  ")
        if score.candidate.how is not None:
            how = score.candidate.how
            yield from _wrapped(
                f"{score.name}, groups of {how.group} from {how.window:,} tokens on: "
                f"{score.candidate.note}.",
                "  ",
            )


def _search(found: Found) -> Iterator[Piece]:
    yield from _wrapped(
        f"{found.tries} tries. Log-probability over gaps in positions, and loss of short text:"
    )
    table = [(f"{'':<19}", f"{'gaps':>8}", f"{'short':>9}")]
    rows = [*found.table, ("searched", found.best.score, found.best.loss)]
    table += [(f"{name:<19}", f"{score:>8.2f}", f"{loss:>9.4f}") for name, score, loss in rows]
    yield Table(table)


def _serving(options: Sequence[Options], files: str) -> Iterator[Piece]:
    for each in options:
        yield ""
        yield from _wrapped(f"{each.engine}, {files} ({each.checked}):")
        if each.line is not None:
            yield from (Command(step) for step in (*each.steps, each.line))
        else:
            yield from _wrapped(each.reason, "  ")


def _wrapped(text: str, indent: str = "") -> Iterator[Piece]:
    yield Prose(text, indent, indent, hyphens=True)
