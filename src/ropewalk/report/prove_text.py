"""A proof in the terminal: the heat map, the pooled lengths, the effective length, the facts.

Readable in 80 columns, without colour and in pure ASCII. Lengths are columns, depths are rows.
More columns than fit go on in a further block. Every line is built once as (text, tone) pieces;
the plain and the coloured output are two ways to write the same pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.proof.summary import CellSummary, LengthSummary, RunSummary, Share
from ropewalk.report import heatmap
from ropewalk.report.fact_words import readable_facts
from ropewalk.report.heatmap import Mark
from ropewalk.report.layout import cells, wrapped
from ropewalk.report.text import clip, draws_glyphs, encodable, visible

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST = 40
_FACT_LIMIT = 2_000
_LABEL = 13

Tone = float | str
"""A share from 0 to 1 that is painted by the scale, or a style: "", "bold", "dim"."""
Line = list[tuple[str, Tone]]


@dataclass(frozen=True, slots=True)
class _Glyphs:
    """The characters to draw with; `shades` from no hits to all hits."""

    shades: tuple[str, str, str, str, str]
    claimed: str
    certain: tuple[str, str]
    possible: tuple[str, str]
    open_end: str

    def shade(self, value: float) -> str:
        """Return the shade of a share; the first and last are kept for exactly 0 and 1."""
        if value in (0.0, 1.0):
            return self.shades[-1 if value else 0]
        return self.shades[1 + min(2, int(3 * value))]


_UNICODE = _Glyphs(("··", "░░", "▒▒", "▓▓", "██"), "┆", ("═", "╡"), ("─", "┤"), "→")
_ASCII = _Glyphs(("..", "--", "++", "**", "##"), ":", ("=", "]"), ("-", "]"), ">")
_WORDS = {
    Mark.UNASKED: ("?", "not asked yet"),
    Mark.OVERFLOW: ("OVER", "does not fit"),
    Mark.ERROR: ("ERR", "broke and will be asked again"),
    Mark.TRUNCATED: ("CUT", "the server cut the prompt"),
    Mark.REFUSED: ("REF", "the model declined"),
    Mark.EMPTY: ("NONE", "an empty answer"),
}


@dataclass(frozen=True, slots=True)
class _Block:
    """Columns `first` to `last` (exclusive) of the map, each `width` characters wide.

    Before each column and behind the last is a slot of one character, where the claimed length
    is drawn; `claimed` is the index of that slot in the block, None if it is not in it.
    """

    first: int
    last: int
    width: int
    claimed: int | None
    glyphs: _Glyphs

    def line(self, label: str, fields: Sequence[tuple[str, Tone]], tone: Tone = "") -> Line:
        """Lay out a row: its label and one field a column, ending above each other."""
        pieces: Line = [(label.ljust(_LABEL), tone)]
        for i, (text, field_tone) in enumerate(fields):
            pieces += [self._slot(i), (f"{text} ".rjust(self.width), field_tone)]
        return [*pieces, self._slot(len(fields))]

    def _slot(self, index: int) -> tuple[str, Tone]:
        return (self.glyphs.claimed if index == self.claimed else " ", "bold")

    def caption(self, text: str) -> Line:
        """Lay out the claimed length's caption, left of its line if there is room, else right."""
        if self.claimed is None:
            raise ValueError("a block without the claimed length has no caption for it")
        at = _LABEL + self.claimed * (self.width + 1)
        if len(text) < at:
            return [(text.rjust(at - 1) + " " + self.glyphs.claimed, "bold")]
        return [(" " * at + self.glyphs.claimed + " " + text, "bold")]

    def bar(
        self, label: str, strokes: tuple[str, str], covered: int, *, goes_on: bool = False
    ) -> Line:
        """Lay out a bar over the first `covered` columns of the whole map, as far as in here.

        One that `goes_on` ends openly: where it would have ended was not asked.
        """
        here = min(max(covered - self.first, 0), self.last - self.first)
        length = here * (self.width + 1)
        ends_here = covered <= self.last and here > 0
        stroke, end = strokes
        end = self.glyphs.open_end if goes_on else end
        body = stroke * (length - 1) + end if ends_here else stroke * length
        return [(label.ljust(_LABEL) + " " + body, "dim" if not here else "")]


def heatmap_lines(summary: RunSummary, *, width: int = 80, ascii: bool = False) -> list[str]:  # noqa: A002
    """Return the map with its pooled rows and legend as plain lines of at most `width` characters.

    `ascii` draws with ASCII alone. No line ends in a space.
    """
    return _plain(_map_lines(summary, width, _ASCII if ascii else _UNICODE))


def proof_lines(summary: RunSummary, *, width: int = 80, ascii: bool = False) -> list[str]:  # noqa: A002
    """Return all that `print_proof` prints as plain lines: map, result, controls and facts."""
    return _plain(_proof(summary, width, _ASCII if ascii else _UNICODE))


def print_proof(console: Console, summary: RunSummary) -> None:
    """Print a proof: coloured where `console` has colours, in ASCII where its encoding needs it."""
    from rich.text import Text

    encoding = console.encoding or "ascii"
    glyphs = _UNICODE if draws_glyphs(encoding) else _ASCII
    painted = console.color_system is not None and not console.no_color
    for line in _proof(summary, console.width, glyphs):
        text = Text(no_wrap=True)
        for piece, tone in line:
            safe = piece if piece.isascii() else encodable(piece, encoding)
            text.append(safe, _style(tone))
        if not painted:
            text.rstrip()
        console.print(text, soft_wrap=True, highlight=False)


def _style(tone: Tone) -> str:
    if isinstance(tone, str):
        return tone
    background = heatmap.colour(tone)
    return f"{heatmap.ink(background)} on {background}"


def _plain(lines: Iterator[Line]) -> list[str]:
    return ["".join(piece for piece, _ in line).rstrip() for line in lines]


def _proof(summary: RunSummary, width: int, glyphs: _Glyphs) -> Iterator[Line]:
    width = max(width, _NARROWEST)
    yield from _map_lines(summary, width, glyphs)
    yield []
    yield from _result(summary, width)
    if summary.controls:
        yield []
        yield from _controls(summary, width)
    if summary.facts:
        yield []
        for name, value in readable_facts(summary.facts).items():
            yield from _fact(visible(name), visible(clip(value, _FACT_LIMIT)), width)


def _fact(name: str, value: str, width: int) -> Iterator[Line]:
    label = f"{name}: ".ljust(_LABEL)
    # A command is to be copied, which one in several lines could not be.
    parts = (
        [value] if name == "command" else wrapped(value, width, " " * cells(label), " " * _LABEL)
    )
    for number, part in enumerate(parts or [""]):
        text = part if number or name == "command" else part.removeprefix(" " * cells(label))
        yield [(label if not number else "", "dim"), (text, "")]


def _map_lines(summary: RunSummary, width: int, glyphs: _Glyphs) -> Iterator[Line]:
    for number, block in enumerate(_blocks(summary, max(width, _NARROWEST), glyphs)):
        if number:
            yield []
        yield from _block_lines(summary, block)
    yield []
    yield from _legend(summary, max(width, _NARROWEST), glyphs)


def _blocks(summary: RunSummary, width: int, glyphs: _Glyphs) -> Iterator[_Block]:
    columns = len(summary.lengths)
    column_width = _column_width(summary)
    fitting = max(1, (width - _LABEL - 1) // (column_width + 1))
    slot = heatmap.columns_within(summary.lengths, summary.claimed_length)
    for first in range(0, columns, fitting):
        last = min(first + fitting, columns)
        # A claim between two blocks is drawn once, at the end of the earlier one.
        inside = first < slot <= last or slot == first == 0
        claimed = slot - first if inside and summary.claimed_length is not None else None
        yield _Block(first, last, column_width, claimed, glyphs)


def _column_width(summary: RunSummary) -> int:
    fields = [heatmap.tokens(length) for length in summary.lengths]
    fields += [_field(cell, _UNICODE, _fraction_width(summary))[0] for cell in summary.cells]
    for column in summary.columns:
        fields += [heatmap.fraction(column.pooled), heatmap.interval(column.pooled)]
        fields += [_depth_name(column), heatmap.interval(column.worst), visible(column.verdict)]
    return max(len(field) for field in fields) + 1


def _fraction_width(summary: RunSummary) -> int:
    return max(len(heatmap.fraction(cell.share)) for cell in summary.cells)


def _depth_name(column: LengthSummary) -> str:
    if column.worst_depth is None:
        return "-"
    return "alike" if column.alike else heatmap.percent(column.worst_depth)


def _field(cell: CellSummary, glyphs: _Glyphs, fraction_width: int) -> tuple[str, Tone]:
    value = cell.share.value
    if value is None:
        return _WORDS[heatmap.mark_of(cell)][0], "dim"
    number = heatmap.fraction(cell.share).rjust(fraction_width)
    return f"{glyphs.shade(value)} {heatmap.flag(cell)}{number}", value


def _block_lines(summary: RunSummary, block: _Block) -> Iterator[Line]:
    cells = heatmap.by_place(summary)
    lengths = summary.lengths[block.first : block.last]
    columns = summary.columns[block.first : block.last]
    fraction_width = _fraction_width(summary)
    if block.claimed is not None:
        yield block.caption(f"claimed {heatmap.tokens(summary.claimed_length)}")
    yield block.line("depth", [(heatmap.tokens(n), "bold") for n in lengths], "bold")
    for depth in summary.depths:
        row = [_field(cells[n, depth], block.glyphs, fraction_width) for n in lengths]
        yield block.line(heatmap.percent(depth).rjust(7), row)
    yield block.line("", [("", "")] * len(lengths))

    def pooled(label: str, say: Callable[[LengthSummary], str], tone: Tone = "") -> Line:
        return block.line(label, [(visible(say(column)), tone) for column in columns], tone)

    def share(part: Callable[[LengthSummary], Share]) -> Callable[[LengthSummary], str]:
        return lambda column: heatmap.interval(part(column))

    yield pooled("all depths", lambda column: heatmap.fraction(column.pooled), "bold")
    yield pooled("  interval", share(lambda column: column.pooled))
    yield pooled("worst depth", _depth_name)
    yield pooled("  hits", lambda column: heatmap.fraction(column.worst))
    yield pooled("  interval", share(lambda column: column.worst))
    yield pooled("verdict", lambda column: column.verdict, "bold")
    effective, glyphs = summary.effective, block.glyphs
    certain = heatmap.columns_within(summary.lengths, effective.certain)
    possible = heatmap.columns_within(summary.lengths, effective.possible)
    yield block.bar("certain", glyphs.certain, certain)
    yield block.bar("possible", glyphs.possible, possible, goes_on=effective.open_end)


def _legend(summary: RunSummary, width: int, glyphs: _Glyphs) -> Iterator[Line]:
    names = ("none", "under 1/3", "under 2/3", "more", "all")
    scale = ", ".join(f"{g} {n}" for g, n in zip(glyphs.shades, names, strict=True))
    legend = f"Fields: hits/judged answers; {scale}."
    marks = {heatmap.mark_of(cell) for cell in summary.cells}
    legend += "".join(f" {word} {text}." for mark, (word, text) in _WORDS.items() if mark in marks)
    flags = {heatmap.flag(cell) for cell in summary.cells}
    legend += " ! some answers broke." if "!" in flags else ""
    legend += " ^ some prompts did not fit." if "^" in flags else ""
    legend += " ~ some were cut, refused or empty." if "~" in flags else ""
    legend += f" Intervals: {summary.interval}."
    if summary.effective.open_end:
        legend += f" {glyphs.open_end} nothing failed as far as was asked."
    if summary.claimed_length is not None:
        legend += f" {glyphs.claimed} where the claimed length ends."
    yield from _wrapped(legend, width, "dim")


def _result(summary: RunSummary, width: int) -> Iterator[Line]:
    effective = summary.effective
    claimed = heatmap.tokens(summary.claimed_length)
    trained = heatmap.tokens(summary.trained_length)
    reach = f"[{_end(effective.certain)}, {_end(effective.possible)}] tokens, certain and possible"
    if effective.open_end:
        reach += ", as far as was asked"
    source = f" ({visible(summary.claimed_source)})" if summary.claimed_source else ""
    threshold = f"{heatmap.percent(effective.threshold)}, {visible(effective.threshold_rule)}"
    yield from _labelled("claimed", f"{claimed} tokens{source}", width)
    by = f" ({visible(summary.trained_source)})" if summary.trained_source else ""
    yield from _labelled("trained", f"{trained} tokens{by}", width)
    yield from _labelled("effective", reach, width, "bold")
    yield from _labelled("threshold", threshold, width)
    yield from _wrapped(visible(effective.sentence), width, "bold")
    for reason in summary.reasons:
        yield from _labelled("why", visible(heatmap.why(reason)), width)


def _end(length: int | None) -> str:
    return "none" if length is None else heatmap.tokens(length)


def _controls(summary: RunSummary, width: int) -> Iterator[Line]:
    yield [("Controls", "bold")]
    for control in summary.controls:
        head = f"{visible(control.name)} at {heatmap.tokens(control.length)}"
        share = f"{heatmap.fraction(control.share)} ({heatmap.interval(control.share)})"
        yield from _wrapped(f"  {head}: {share}. {visible(control.reading)}", width, "")


def _labelled(label: str, text: str, width: int, tone: Tone = "") -> Iterator[Line]:
    for i, part in enumerate(wrapped(text, width - _LABEL, hyphens=True)):
        yield [((label if not i else "").ljust(_LABEL), "dim"), (part, tone)]


def _wrapped(text: str, width: int, tone: Tone) -> Iterator[Line]:
    indent = " " * (len(text) - len(text.lstrip()) + 2) if text.startswith(" ") else ""
    for part in wrapped(text, width, rest=indent, hyphens=True):
        yield [(part, tone)]
