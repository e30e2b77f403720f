"""A heat map in the terminal: readable without colour and in pure ASCII.

Columns are laid out from the left, and those that do not fit go on in a further block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ropewalk.report.document import Band, HeatMap, MapField, Tone
from ropewalk.report.text import cells, visible, wrapped

_LABEL = 13
"""Cells of the names of rows."""


@dataclass(frozen=True, slots=True)
class _Glyphs:
    """The characters to draw with; `shades` from no hits to all hits."""

    shades: tuple[str, str, str, str, str]
    limit: str
    strong: tuple[str, str]
    weak: tuple[str, str]
    open_end: str

    def shade(self, value: float) -> str:
        """The shade of a share; the first and last are kept for exactly 0 and 1."""
        if value in (0.0, 1.0):
            return self.shades[-1 if value else 0]
        return self.shades[1 + min(2, int(3 * value))]


_UNICODE = _Glyphs(("··", "░░", "▒▒", "▓▓", "██"), "┆", ("═", "╡"), ("─", "┤"), "→")
_ASCII = _Glyphs(("..", "--", "++", "**", "##"), ":", ("=", "]"), ("-", "]"), ">")
_SHADES = ("none", "under 1/3", "under 2/3", "more", "all")


def map_lines(
    found: HeatMap, width: int, *, in_ascii: bool = False
) -> Iterator[list[tuple[str, Tone]]]:
    """The map, its further lines, its bands and its legend in `width` cells."""
    glyphs = _ASCII if in_ascii else _UNICODE
    for number, block in enumerate(_blocks(found, width, glyphs)):
        if number:
            yield []
        yield from block.lines()
    if found.holds:
        yield []
        for line in wrapped(visible(_legend(found, glyphs)), width, hyphens=True):
            yield [(line, "dim")]


@dataclass(frozen=True, slots=True)
class _Block:
    """Columns `first` to `last` (exclusive) of the map, each `width` cells wide.

    Before each column and behind the last is a slot of one cell, where the limit is drawn;
    `limit` is the index of that slot in the block, None if it is not in it.
    """

    found: HeatMap
    first: int
    last: int
    width: int
    limit: int | None
    glyphs: _Glyphs

    def lines(self) -> Iterator[list[tuple[str, Tone]]]:
        found, part = self.found, slice(self.first, self.last)
        if self.limit is not None and found.line is not None:
            yield self._caption(visible(found.line.caption), self.limit)
        heads: list[tuple[str, Tone]] = [(visible(name), "bold") for name in found.columns[part]]
        yield self._line(found.corner, heads, "bold")
        wide = _text_width(found)
        for name, fields in zip(found.rows, found.fields, strict=True):
            row = [_field(each, self.glyphs, wide) for each in fields[part]]
            yield self._line(visible(name).rjust(7), row)
        if found.below:
            yield self._line("", [("", "")] * (self.last - self.first))
        for name, texts, tone in found.below:
            yield self._line(name, [(visible(text), tone) for text in texts[part]], tone)
        yield from map(self._band, found.bands)

    def _line(
        self, label: str, fields: Sequence[tuple[str, Tone]], tone: Tone = ""
    ) -> list[tuple[str, Tone]]:
        """A row: its label and one field a column, ending above each other."""
        pieces: list[tuple[str, Tone]] = [(label.ljust(_LABEL), tone)]
        for at, (text, field_tone) in enumerate(fields):
            padded = " " * (self.width - 1 - cells(text)) + f"{text} "
            pieces += [self._slot(at), (padded, field_tone)]
        return [*pieces, self._slot(len(fields))]

    def _slot(self, index: int) -> tuple[str, Tone]:
        return (self.glyphs.limit if index == self.limit else " ", "bold")

    def _caption(self, text: str, limit: int) -> list[tuple[str, Tone]]:
        """What the limit is, left of its line if there is room, else right."""
        at = _LABEL + limit * (self.width + 1)
        if cells(text) < at:
            return [(" " * (at - 1 - cells(text)) + f"{text} {self.glyphs.limit}", "bold")]
        return [(" " * at + f"{self.glyphs.limit} {text}", "bold")]

    def _band(self, band: Band) -> list[tuple[str, Tone]]:
        """A bar over the first columns of the whole map, as far as they are in here.

        One that goes on ends openly: where it would have ended was not asked.
        """
        here = min(max(band.covered - self.first, 0), self.last - self.first)
        length = here * (self.width + 1)
        stroke, end = self.glyphs.strong if band.strong else self.glyphs.weak
        end = self.glyphs.open_end if band.open_end else end
        ends_here = band.covered <= self.last and here > 0
        body = stroke * (length - 1) + end if ends_here else stroke * length
        return [(band.name.ljust(_LABEL) + " " + body, "dim" if not here else "")]


def _blocks(found: HeatMap, width: int, glyphs: _Glyphs) -> Iterator[_Block]:
    columns, column_width = len(found.columns), _column_width(found)
    fitting = max(1, (width - _LABEL - 1) // (column_width + 1))
    slot = None if found.line is None else found.line.after
    for first in range(0, columns, fitting):
        last = min(first + fitting, columns)
        # A limit between two blocks is drawn once, at the end of the earlier one.
        inside = slot is not None and (first < slot <= last or slot == first == 0)
        limit = slot - first if inside and slot is not None else None
        yield _Block(found, first, last, column_width, limit, glyphs)


def _column_width(found: HeatMap) -> int:
    wide = _text_width(found)
    texts = [*map(visible, found.columns)]
    texts += [_field(each, _UNICODE, wide)[0] for row in found.fields for each in row]
    texts += [visible(text) for _, line, _ in found.below for text in line]
    return max(map(cells, texts)) + 1


def _text_width(found: HeatMap) -> int:
    shares = [each.text for row in found.fields for each in row if each.share is not None]
    return max(map(len, shares), default=0)


def _field(each: MapField, glyphs: _Glyphs, wide: int) -> tuple[str, Tone]:
    if each.share is None:
        return each.text, "dim"
    return f"{glyphs.shade(each.share)} {each.flag}{each.text.rjust(wide)}", each.share


def _legend(found: HeatMap, glyphs: _Glyphs) -> str:
    shades = ", ".join(f"{g} {name}" for g, name in zip(glyphs.shades, _SHADES, strict=True))
    said = [f"Fields: {found.holds}; {shades}.", *found.legend]
    said += [f"{glyphs.open_end} {each.tip}." for each in found.bands if each.open_end]
    said += [] if found.line is None else [f"{glyphs.limit} {found.line.words}."]
    return " ".join(said)
