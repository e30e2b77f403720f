"""Where commands write: results to stdout, in lines that fit the terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

import typer

from ropewalk.report.layout import Command, Piece, Prose, lines

if TYPE_CHECKING:
    from rich.console import Console

USUAL = 100
"""Columns of what goes into a pipe or a file, where neither COLUMNS nor a terminal says more.

No report is wider; those made for 80 columns stay so.
"""


def columns() -> int:
    """How wide results are: COLUMNS, else the terminal's columns, else USUAL.

    The terminal is that of stdout, or of another stream: what goes into a pager is looked at, too.
    """
    return _told(sys.stdout, sys.stderr, sys.stdin) or USUAL


def log_columns() -> int | None:
    """How wide stderr is, and None where nobody says: no COLUMNS, no terminal.

    Then a remark is one line, for a log is searched line by line.
    """
    return _told(sys.stderr)


def _told(*streams: TextIO) -> int | None:
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdecimal() and int(told):
        return int(told)
    for stream in streams:
        try:
            return os.get_terminal_size(stream.fileno()).columns or None
        except (OSError, ValueError, AttributeError):
            # A pipe, a closed stream, or one that was replaced by what has no file.
            continue
    return None


def console() -> Console:
    """Where coloured reports are printed: stdout. In a pipe they have rich's 80 columns."""
    from rich.console import Console

    return Console(highlight=False, width=_told(sys.stdout, sys.stderr, sys.stdin) or 80)


def show(*pieces: Piece) -> None:
    """Print to stdout, in lines that fit."""
    for line in lines(pieces, columns()):
        typer.echo(line)


def show_path(line: str) -> None:
    """Print a line that ends in a path, which is never broken, so that it can be used."""
    show(Command(line, ""))


def tell(sentence: str) -> None:
    """A remark on stderr, in lines that fit the terminal, or in one: see `log_columns`."""
    room = log_columns()
    if room is None:
        typer.echo(sentence, err=True)
        return
    for line in lines([Prose(sentence, rest="  ")], room):
        typer.echo(line, err=True)
