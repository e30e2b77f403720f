"""What a command printed, as one HTML page: the colours of a terminal kept, nothing else added.

Results with a page of their own, like a proof's map, do not come this way.
"""

from __future__ import annotations

import io

from ropewalk.report.page import asset, environment, policy_hash, trusted
from ropewalk.report.text import visible

_WIDEST = 100_000
"""Columns: lines have been broken where they were printed, and are not broken again."""


def printed_html(command: str, text: str) -> str:
    """The page of `text`, which may hold ANSI colours; `command` is what printed it.

    Other control characters are shown, and obeyed by nobody. Raises MissingPartError without
    jinja2.
    """
    colours, body = _body(text)
    style = asset("look.css") + asset("printed.css") + colours
    return (
        environment()
        .get_template("printed.html.j2")
        .render(
            command=command,
            body=trusted(body),
            style=trusted(style),
            style_hash=policy_hash(style),
        )
    )


def _body(text: str) -> tuple[str, str]:
    """The style of the colours in a text, and the text as markup."""
    from rich.console import Console
    from rich.text import Text

    shown = Text()
    for line in Text.from_ansi(text.rstrip("\n")).split(allow_blank=True):
        # Spans keep their places only where no character becomes several.
        safe = visible(line.plain)
        shown.append_text(line if safe == line.plain else Text(safe))
        shown.append("\n")
    shown.rstrip()
    console = Console(record=True, width=_WIDEST, file=io.StringIO(), color_system="truecolor")
    console.print(shown, soft_wrap=True, end="")
    style, _, code = console.export_html(
        code_format="{stylesheet}\x00{code}", inline_styles=False
    ).partition("\x00")
    return style, code
