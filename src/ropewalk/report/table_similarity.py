"""Cosines of a list of words with one another: in the terminal, as JSON, and as a page.

Every field prints its number and is coloured from orange (-1) over sand (0) to blue (1), where
the terminal has colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.report import heatmap, page
from ropewalk.report.layout import NARROWEST, Prose, fit, lines
from ropewalk.report.table_near import asked_document, asked_line
from ropewalk.report.text import visible
from ropewalk.short import short
from ropewalk.tables.vocabulary import display

if TYPE_CHECKING:
    from rich.text import Text

    from ropewalk.kernels.arrays import Array
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.words import WordRows

WIDTH = 100
LABEL = 20
"""Columns of a word in the terminal."""
ACROSS = 10
"""Columns of fields side by side in the terminal; more words make further blocks."""
FIELD, GAP, HEAD = 54.0, 3.0, 150.0
"""Of a field and between two of the page, and the room for words, in SVG pixels."""


@short
@dataclass(frozen=True, slots=True)
class Field:
    """One field of the page: its box's corner and colour, "dark" or "light" for its ink, its
    number, and the pair in words.
    """

    x: float
    y: float
    fill: str
    ink: str
    text: str
    tip: str


def name_of(asked: WordRows) -> str:
    """A word by the spelling that was used; a row or text as it was named."""
    return display(asked.used.key) if asked.used is not None else visible(asked.text)


def similarity_lines(
    asked: Sequence[WordRows], cosines: Array, table: EmbeddingTable, width: int = WIDTH
) -> Iterator[str | Text]:
    """What stands for each word, then the cosines (n, n): of two in a line, of more as a map.

    In `width` columns, WIDTH at most.
    """
    from rich.text import Text

    room = max(NARROWEST, min(width, WIDTH))
    across = min(ACROSS, (room - LABEL - 5) // 7)
    for number, one in enumerate(asked, 1):
        yield from lines([Prose(asked_line(one, table), f"{number:>3}  ", " " * 9)], room)
    yield ""
    if len(asked) == 2:
        yield f"cosine {float(cosines[0, 1]):.4f}"
        return
    for first in range(0, len(asked), across):
        columns = range(first, min(first + across, len(asked)))
        yield " " * (LABEL + 5) + "".join(f"{c + 1:>7}" for c in columns)
        for row, one in enumerate(asked):
            line = Text(f"{row + 1:>3}  {_column(name_of(one))}")
            for c in columns:
                value = float(cosines[row, c])
                fill = heatmap.colour((value + 1) / 2)
                line.append(f"{value:>6.2f} ", style=f"{heatmap.ink(fill)} on {fill}")
            yield line
        if columns[-1] + 1 < len(asked):
            yield ""


def similarity_document(
    asked: Sequence[WordRows], cosines: Array, table: EmbeddingTable
) -> dict[str, object]:
    """The same, for JSON."""
    return {
        "model": table.tables.title,
        "table": {"role": table.role, "tensor": table.name, "view": table.view},
        "words": [asked_document(one, table) for one in asked],
        "cosines": cosines.tolist(),
    }


def similarity_html(asked: Sequence[WordRows], cosines: Array, table: EmbeddingTable) -> str:
    """The map as one HTML page, without a script. Raises MissingPartError without jinja2."""
    names = [name_of(one) for one in asked]
    fields = [
        Field(
            HEAD + FIELD * c,
            HEAD + FIELD * r,
            fill := heatmap.colour((value + 1) / 2),
            "light" if heatmap.ink(fill) == "#ffffff" else "dark",
            f"{value:.2f}",
            f"{names[r]} and {names[c]}: {value:.6f}",
        )
        for r, values in enumerate(cosines.tolist())
        for c, value in enumerate(values)
    ]
    middles = [HEAD + FIELD * i + (FIELD - GAP) / 2 for i in range(len(asked))]
    style = page.asset("look.css") + page.asset("table_similarity.css")
    return (
        page.environment()
        .get_template("table_similarity.html.j2")
        .render(
            title=table.tables.title,
            line=table.line(),
            asked=[asked_line(one, table) for one in asked],
            labels=[(at, _short(name, 18), name) for at, name in zip(middles, names, strict=True)],
            fields=fields,
            box=FIELD - GAP,
            head=HEAD,
            side=HEAD + FIELD * len(asked),
            scale=[(heatmap.colour(i / 20), 9 * i) for i in range(21)],
            style=page.trusted(style),
            style_hash=page.policy_hash(style),
        )
    )


def _column(text: str) -> str:
    return fit(text, LABEL)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
