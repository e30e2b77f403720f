"""Where commands write: results to stdout, in lines that fit the terminal, and into a page.

A command gives its result to `print_result`, or what stands beside it to `show`. Both print, and
where a page was asked for, both keep what they printed for it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

import typer

from ropewalk.report.document import Block, Document, Prose, ToCopy
from ropewalk.report.lines import print_blocks, text_lines

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


class Kept:
    """What a page is to hold: the blocks that were printed, and the title of the last document."""

    def __init__(self) -> None:
        self.title = self.question = ""
        self.blocks: list[Block] = []

    def add(self, document: Document) -> None:
        """Keep all of a document."""
        self.title, self.question = document.title, document.question
        self.blocks += document.blocks


kept: Kept | None = None
"""Where a page was asked for; set by `ropewalk.cli.pages`."""


def print_result(
    result: Any,
    *,
    as_json: bool = False,
    values: Mapping[str, object] | None = None,
    **options: Any,
) -> None:
    """Print the report of a result, or its plain values (`values`, where they are others).

    `options` go to the function that makes its document.
    """
    from ropewalk.report import document_of, to_dict

    if as_json:
        print_json(to_dict(result) if values is None else values)
        if kept is None:
            return
    document = document_of(result, **options)
    if kept is not None:
        kept.add(document)
    if not as_json:
        print_document(document)


def print_document(document: Document) -> None:
    """Print a document as wide as the terminal and it may be, in colours where there are any."""
    told = _told(sys.stdout, sys.stderr, sys.stdin)
    usual = document.width if document.width <= USUAL else 80
    print_blocks(console(), document.blocks, min(told or usual, document.width))


def print_json(values: Mapping[str, object]) -> None:
    """Print plain values as one JSON document."""
    typer.echo(json.dumps(values, indent=2, allow_nan=False))


def show(*blocks: Block) -> None:
    """Print to stdout, in lines that fit."""
    if kept is not None:
        kept.blocks += blocks
    for line in text_lines(blocks, columns()):
        typer.echo(line)


def show_path(line: str) -> None:
    """Print a line that ends in a path, which is never broken, so that it can be used."""
    show(ToCopy(line, ""))


def tell(sentence: str) -> None:
    """A remark on stderr, in lines that fit the terminal, or in one: see `log_columns`."""
    room = log_columns()
    if room is None:
        typer.echo(sentence, err=True)
        return
    for line in text_lines([Prose(sentence, rest="  ", hyphens=False)], room):
        typer.echo(line, err=True)
