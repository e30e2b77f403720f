"""The one place where text for a terminal is broken into lines.

A report yields pieces: sentences, tables, drawings, commands to copy. `lines` lays them out in a
width, counted in the cells that characters take on a screen, so that no line is wider. Only a
command to copy stays as long as it is: broken, it would be another command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ropewalk.report.text import NARROWEST, cells, fit, wrapped
from ropewalk.short import short

__all__ = [
    "NARROWEST",
    "Command",
    "Drawn",
    "Piece",
    "Prose",
    "Table",
    "cells",
    "fit",
    "lines",
    "wrapped",
]

_LEAST_TEXT = 20
"""Cells that a column of text keeps beside other columns; with fewer it goes below them."""
_STACKED = "  "


@short
@dataclass(frozen=True, slots=True)
class Prose:
    """Text that is broken at its blanks: `first` before its first line, `rest` before the others.

    `hyphens` lets words break behind a hyphen, too. A word that is wider than a line is folded.
    """

    text: str
    first: str = ""
    rest: str = ""
    hyphens: bool = False


@short
@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells that are padded already, the first column their label.

    Where the columns do not fit side by side, they go on in further blocks, each with the label.
    `text`: the last column is words, which are wrapped in what room is left.
    """

    rows: Sequence[Sequence[str]]
    text: bool = False


@short
@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn for a width: a function from cells to lines of at most so many."""

    draw: Callable[[int], Iterable[str]]


@short
@dataclass(frozen=True, slots=True)
class Command:
    """A line to copy, into a shell or a path into a program, never broken.

    `lead` are words before it, in its line where there is room, else in lines above it.
    """

    line: str
    indent: str = "  "
    lead: str = ""


Piece = str | Prose | Table | Drawn | Command
"""A plain string is a line of its own; too long, it goes on below, two deeper than it begins."""


def lines(pieces: Iterable[Piece], width: int) -> Iterator[str]:
    """The pieces as lines of at most max(`width`, NARROWEST) cells, but for a Command.

    No line ends in a blank.
    """
    room = max(width, NARROWEST)
    for piece in pieces:
        match piece:
            case str():
                yield from _line(piece, room)
            case Prose():
                yield from wrapped(piece.text, room, piece.first, piece.rest, hyphens=piece.hyphens)
            case Table():
                yield from _table(piece, room)
            case Drawn():
                yield from (line.rstrip() for line in piece.draw(room))
            case Command():
                yield from _copied(piece, room)


def _line(text: str, width: int) -> list[str]:
    if cells(text.rstrip()) <= width:
        return [text.rstrip()]
    deep = len(text) - len(text.lstrip()) + 2
    return wrapped(text, width, rest=" " * deep)


def _copied(command: Command, width: int) -> Iterator[str]:
    if command.lead and cells(whole := f"{command.lead} {command.line}") <= width:
        yield whole
        return
    yield from _line(command.lead, width) if command.lead else ()
    deep = len(command.lead) - len(command.lead.lstrip())
    yield " " * deep + command.indent + command.line


def _table(table: Table, width: int) -> Iterator[str]:
    rows = [list(row) for row in table.rows]
    count = max(map(len, rows), default=0)
    rows = [row + [""] * (count - len(row)) for row in rows]
    sizes = [max(cells(row[at].rstrip() if at == count - 1 else row[at]) for row in rows)
             for at in range(count)]  # fmt: skip
    if count == 0:
        return
    widest = (
        min(max(sizes[1:], default=0), _LEAST_TEXT) if table.text else max(sizes[1:], default=0)
    )
    # A label that leaves no room for a column stands on lines of its own.
    stacked = sizes[0] + widest > width
    before = cells(_STACKED) if stacked else sizes[0]
    for number, block in enumerate(_blocks(sizes, before, width, text=table.text)):
        if number:
            yield ""
        for row in rows:
            if stacked:
                yield from wrapped(row[0].strip(), width)
            head = _STACKED if stacked else row[0]
            if any(row[at].strip() for at in block) or not stacked:
                yield from _row(head, [row[at] for at in block], [sizes[at] for at in block], width)


def _blocks(sizes: Sequence[int], before: int, width: int, *, text: bool) -> Iterator[list[int]]:
    """Which columns stand side by side; the label, of `before` cells, stands before each block."""
    block: list[int] = []
    used = before
    for at in range(1, len(sizes)):
        last = text and at == len(sizes) - 1
        size = min(sizes[at], _LEAST_TEXT) if last else sizes[at]
        if block and used + size > width:
            yield block
            block, used = [], before
        block.append(at)
        used += size
    yield block


def _row(head: str, row: Sequence[str], sizes: Sequence[int], width: int) -> Iterator[str]:
    """One row of a block; cells that are wider than what is left go on below themselves."""
    line, used = head, cells(head)
    for at, (cell, size) in enumerate(zip(row, sizes, strict=True)):
        if at < len(row) - 1:
            line, used = line + cell + " " * (size - cells(cell)), used + size
    last = row[-1].rstrip() if row else ""
    if used + cells(last) <= width:
        yield (line + last).rstrip()
        return
    blanks = len(last) - len(last.lstrip())
    yield from wrapped(
        last, width, line, " " * (used + blanks if used + blanks < width // 2 else used)
    )
