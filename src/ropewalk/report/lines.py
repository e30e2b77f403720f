"""A document in a terminal: lines of so many cells, painted where the terminal has colours.

`lines` lays blocks out in a width, counted in the cells that characters take on a screen, so that
no line is wider. Only what is to be copied stays as long as it is: broken, it would be another
command. Every text is made safe here, and never goes through rich's markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, assert_never

from ropewalk.report import scale
from ropewalk.report.document import (
    Block,
    Chart,
    Column,
    Details,
    Document,
    Drawn,
    Folded,
    Heading,
    HeatMap,
    Listing,
    On,
    Prose,
    Table,
    ToCopy,
    Tone,
    Widget,
)
from ropewalk.report.text import NARROWEST, cells, draws_glyphs, encodable, visible, wrapped

if TYPE_CHECKING:
    from rich.console import Console

Painted = list[tuple[str, Tone]]
"""A line in pieces, each with its tone."""

_LEAST_TEXT = 20
"""Cells that a column of words keeps beside other columns; with fewer it goes below them."""
_STACKED = "  "
_GAP = 2
"""Blanks before a column whose width is not given."""


def terminal(document: Document, width: int = 80) -> str:
    """The document as plain text, each line at most max(`width`, 40) cells."""
    return "\n".join(text_lines(document.blocks, min(width, document.width)))


def text_lines(blocks: Iterable[Block], width: int, *, in_ascii: bool = False) -> list[str]:
    """Blocks as lines without colours, none of which ends in a blank."""
    return [
        "".join(text for text, _ in line).rstrip()
        for line in lines(blocks, width, in_ascii=in_ascii)
    ]


def print_blocks(console: Console, blocks: Iterable[Block], width: int) -> None:
    """Print blocks: in colours where `console` has them, in ASCII where its encoding needs it."""
    from rich.text import Text

    encoding = console.encoding or "ascii"
    painted = console.color_system is not None and not console.no_color
    for line in lines(blocks, width, in_ascii=not draws_glyphs(encoding)):
        text = Text(no_wrap=True, overflow="ignore")
        for piece, tone in line:
            text.append(encodable(piece, encoding), _style(tone))
        if not painted:
            text.rstrip()
        console.print(text, soft_wrap=True, highlight=False)


def lines(blocks: Iterable[Block], width: int, *, in_ascii: bool = False) -> Iterator[Painted]:
    """Blocks as lines of at most max(`width`, NARROWEST) cells, but for what is to be copied.

    `in_ascii`: maps are drawn with ASCII alone.
    """
    room = max(width, NARROWEST)
    for block in blocks:
        match block:
            case str():
                yield from _all(_line(visible(block), room))
            case Prose():
                yield from _prose(block, room)
            case Heading():
                yield from _all(wrapped(visible(block.text), room), "bold")
            case Details():
                yield from _details(block, room)
            case Table():
                yield from _table(block, room)
            case ToCopy():
                yield from _all(_copied(block, room))
            case HeatMap():
                from ropewalk.report.map_lines import map_lines

                yield from map_lines(block, room, in_ascii=in_ascii)
            case Drawn():
                yield from _all(line.rstrip() for line in block.draw(room))
            case Listing():
                for line in visible(block.text, newlines=True).splitlines():
                    yield [(line, "")]
            case On():
                if block.where == "terminal":
                    yield from lines(block.blocks, width, in_ascii=in_ascii)
            case Chart() | Folded() | Widget():
                pass
            case _:
                assert_never(block)


def _all(lines: Iterable[str], tone: Tone = "") -> Iterator[Painted]:
    """Each line in one piece."""
    for line in lines:
        yield [(line, tone)]


def _style(tone: Tone) -> str:
    if isinstance(tone, str):
        return tone
    background = scale.colour(tone)
    return f"{scale.ink(background)} on {background}"


def _prose(block: Prose, room: int) -> Iterator[Painted]:
    text = visible(block.text)
    found = wrapped(text, room, block.first, block.rest, hyphens=block.hyphens)
    for line in found or [block.first.rstrip()]:
        yield [(line, block.tone)]


def _details(block: Details, room: int) -> Iterator[Painted]:
    """Each value behind its name, later lines below the value."""
    indent, hang = " " * block.indent, block.indent + block.label
    for each in block.details:
        name = visible(each.name) + (": " if block.colon else "")
        label = indent + name.ljust(block.label)
        text = visible(each.text) + (f" ({visible(each.note)})" if each.note else "")
        if each.whole:
            yield [(label, "dim" if block.colon else ""), (text, each.tone)]
            continue
        found = wrapped(text, room, " " * cells(label), " " * hang, hyphens=True)
        for number, line in enumerate(found or [""]):
            if number:
                yield [(line, each.tone)]
            else:
                rest = line[cells(label) :]
                yield [(label, "dim" if block.colon or each.tone else ""), (rest, each.tone)]


def _line(text: str, width: int) -> list[str]:
    if cells(text.rstrip()) <= width:
        return [text.rstrip()]
    deep = len(text) - len(text.lstrip()) + 2
    return wrapped(text, width, rest=" " * deep)


def _copied(block: ToCopy, width: int) -> Iterator[str]:
    line, lead = visible(block.line), visible(block.lead)
    if lead and cells(whole := f"{lead} {line}") <= width:
        yield whole
        return
    yield from _line(lead, width) if lead else ()
    deep = len(lead) - len(lead.lstrip())
    yield " " * deep + block.indent + line


def _table(table: Table, width: int) -> Iterator[Painted]:
    columns = list(table.columns)
    dropped = list(table.less)
    grid, sizes = _grid(table, columns)
    while dropped and sum(sizes) > width:
        name = dropped.pop(0)
        columns = [each for each in columns if each.name != name]
        grid, sizes = _grid(table, columns)
    # What stands last ends where its text ends.
    sizes[-1] = max(cells(row[-1][0].rstrip()) for row in grid)
    most = max(sizes[1:], default=0)
    # A first column that leaves no room for another stands on lines of its own.
    stacked = sizes[0] + (min(most, _LEAST_TEXT) if table.words else most) > width
    before = cells(_STACKED) if stacked else sizes[0]
    for number, block in enumerate(_side_by_side(sizes, before, width, words=table.words)):
        if number:
            yield []
        for row in grid:
            head = row[0]
            if stacked:
                yield from _all(wrapped(head[0].strip(), width), head[1])
                head = (_STACKED, "")
            if any(row[at][0].strip() for at in block) or not stacked:
                yield from _row([head, *(row[at] for at in block)], width)


def _grid(
    table: Table, columns: Sequence[Column]
) -> tuple[list[list[tuple[str, Tone]]], list[int]]:
    """The padded cells of every row with their tones, the heads first, and each column's size."""
    padded: list[list[tuple[str, Tone]]] = []
    sizes = []
    for at, column in enumerate(columns):
        left = column.align == "<" or (not at and column.align != ">")
        texts = [visible(column.text(row)) for row in table.rows]
        head = visible(column.name)
        before = " " * (table.indent if not at else _GAP if left else 0)
        texts = [before + text for text in (head, *texts)]
        gap = 0 if not at else 0 if left else 1 if column.width else _GAP
        size = max(column.width, max(map(cells, texts)) + gap)
        sizes.append(size)
        blanks = [" " * (size - cells(text)) for text in texts]
        tones: list[Tone] = [table.head]
        tones += ["" if column.tone is None else column.tone(row) for row in table.rows]
        padded.append(
            [
                (text + blank if left else blank + text, tone)
                for text, blank, tone in zip(texts, blanks, tones, strict=True)
            ]
        )
    rows = [list(row) for row in zip(*padded, strict=True)]
    if not any(column.name for column in columns):
        rows = rows[1:]
    return rows, sizes


def _side_by_side(
    sizes: Sequence[int], before: int, width: int, *, words: bool
) -> Iterator[list[int]]:
    """Which columns stand side by side; the first, of `before` cells, stands before each block."""
    block: list[int] = []
    used = before
    for at in range(1, len(sizes)):
        last = words and at == len(sizes) - 1
        size = min(sizes[at], _LEAST_TEXT) if last else sizes[at]
        if block and used + size > width:
            yield block
            block, used = [], before
        block.append(at)
        used += size
    yield block


def _row(row: Sequence[tuple[str, Tone]], width: int) -> Iterator[Painted]:
    """One row of a block; a last cell that is wider than what is left goes on below itself."""
    *cells_before, (text, tone) = row
    used = sum(cells(cell) for cell, _ in cells_before)
    last = text.rstrip()
    if used + cells(last) <= width or not cells_before:
        yield [*cells_before, (last, tone)]
        return
    blanks = len(last) - len(last.lstrip())
    deep = used + blanks if used + blanks < width // 2 else used
    first, *others = wrapped(last, width, " " * used, " " * deep)
    yield [*cells_before, (first[used:], tone)]
    yield from _all(others, tone)
