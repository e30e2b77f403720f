"""A result as one document: headings, facts, tables, sentences, maps and charts.

A result's report is one function from the result to a `Document`, in one file per result. What it
looks like is no concern of that function: `lines` lays a document out for a terminal, `page` makes
one HTML file of it, `values` plain JSON values. Text goes in as it is; each renderer makes it
safe, so that nothing from a file can paint a terminal or enter a page's markup.

A table is its columns and the objects that its rows stand for. A `Column` says how it takes its
value from an object and how it prints that, so that a further column is a further value of the
result and a further line in the list of columns, and every renderer has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from ropewalk.short import short

Tone = float | str
"""A share from 0 to 1 that is painted by the scale, or a style: "", "bold", "dim", "yellow"."""


@short
@dataclass(frozen=True, slots=True)
class Heading:
    """Begins a section. `lead`: a sentence below it, on a page only."""

    text: str
    lead: str = ""
    narrow: bool = False
    """On a wide screen the section stands beside the next narrow one."""


@short
@dataclass(frozen=True, slots=True)
class Prose:
    """Text that is broken at its blanks: `first` before its first line, `rest` before the others.

    Without `rest` later lines begin below the text. `hyphens` lets words break behind a hyphen,
    too. A word that is wider than a line is folded.
    """

    text: str
    first: str = ""
    rest: str | None = None
    hyphens: bool = True
    tone: str = ""
    verdict: bool = False
    """The result in one sentence: a page has it below its title."""


@short
@dataclass(frozen=True, slots=True)
class Detail:
    """`name`: what it is called; `text`: what is printed. `value`: the plain value, by default
    the text. `note` stands in brackets behind the text, or below it.
    """

    name: str
    text: str
    value: object = None
    note: str = ""
    tone: str = ""
    whole: bool = False
    """A command or a path to copy, which is never broken into lines."""


@short
@dataclass(frozen=True, slots=True)
class Details:
    """Names and values, the values below each other `label` cells from the left.

    `large`: on a page they are the numbers below the title.
    """

    details: tuple[Detail, ...]
    label: int = 18
    indent: int = 0
    colon: bool = False
    large: bool = False


@short
@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its head, where its value comes from, and how it is printed.

    `width`: cells at least, the blanks before the next column among them. `form` is a format
    string or a function from the value to text; None prints as `absent`. `key`: the name among
    plain values, by default the head.
    """

    name: str
    width: int = 0
    of: Callable[[Any], object] = itemgetter(0)
    form: str | Callable[[Any], str] = "{}"
    align: str = ""
    """"<" or ">"; by default the first column stands left and every other right."""
    absent: str = "-"
    tone: Callable[[Any], Tone] | None = None
    link: Callable[[Any], str] | None = None
    """Where a page's cell leads to."""
    key: str = ""

    def text(self, row: object) -> str:
        """What is printed of a row in this column."""
        value = self.of(row)
        if value is None:
            return self.absent
        return self.form.format(value) if isinstance(self.form, str) else self.form(value)


@short
@dataclass(frozen=True, slots=True)
class Table:
    """Objects, one per row. Columns that do not fit side by side go on below, each with the first.

    `words`: the last column is words, which are wrapped in what room is left. `less`: columns, by
    name, that a narrow terminal does without, the first to go first; `key` names the table among
    plain values.
    """

    columns: Sequence[Column]
    rows: Sequence[object]
    words: bool = False
    less: Sequence[str] = ()
    indent: int = 0
    head: str = ""
    """The tone of the line of heads."""
    key: str = ""
    caption: str = ""
    """Said above it on a page only."""
    dots: Sequence[str] = ()
    """The colour of each row's dot on a page, as the lines of charts name them."""

    def values(self) -> list[dict[str, object]]:
        """Each row by the keys of its columns, numbers as they are."""
        names = [each.key or each.name or "name" for each in self.columns]
        return [
            {name: each.of(row) for name, each in zip(names, self.columns, strict=True)}
            for row in self.rows
        ]


@short
@dataclass(frozen=True, slots=True)
class ToCopy:
    """A line to copy, into a shell or a path into a program, never broken.

    `lead` are words before it, in its line where there is room, else in lines above it.
    """

    line: str
    indent: str = "  "
    lead: str = ""


@short
@dataclass(frozen=True, slots=True)
class MapField:
    """One field of a map: a share from 0 to 1 with its words, or none with a mark's words."""

    share: float | None
    text: str
    tip: str = ""
    link: str = ""
    flag: str = ""
    """One character before the text that says what else there is to know."""
    word: str = ""
    """What a page prints in place of the text."""
    mark: str = "share"


@short
@dataclass(frozen=True, slots=True)
class MapBand:
    """A bar under the first `covered` columns of a map; `open_end`: it may go on.

    `strong` ones are filled.
    """

    name: str
    covered: int
    strong: bool = False
    open_end: bool = False
    tip: str = ""


@short
@dataclass(frozen=True, slots=True)
class Whisker:
    """A share in a column with its interval, in the chart under a map."""

    column: int
    value: float
    low: float
    high: float
    tip: str


@short
@dataclass(frozen=True, slots=True)
class HeatMap:
    """Shares in fields: `columns` across, `rows` down, `fields` a tuple for each row.

    `below`: further lines of text, each with a name, a text a column, and a tone. `whiskers` by
    the name of their series; `threshold` is a share with its words.
    """

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    fields: tuple[tuple[MapField, ...], ...]
    holds: str = ""
    """What the text of a field is, for the legend."""
    below: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    bands: tuple[MapBand, ...] = ()
    line: Limit | None = None
    whiskers: Mapping[str, tuple[Whisker, ...]] = field(default_factory=dict)
    threshold: tuple[float, str] | None = None
    verdicts: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()
    """Sentences about marks and intervals."""
    tips: bool = True
    """Whether a page holds the words of every field."""


@short
@dataclass(frozen=True, slots=True)
class Limit:
    """A line behind the first `after` columns of a map: its caption, and what it means."""

    caption: str
    after: int
    words: str


@short
@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line of a chart: points (x, y), y None where it is broken, and a tip for each or none."""

    name: str
    points: tuple[tuple[float, float | None], ...]
    tips: tuple[str, ...] = ()
    second: bool = False
    """Drawn in dashes."""
    kind: str = ""


@short
@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over x, drawn on a page. `ticks`: places on x with their labels.

    `low` and `high`: the scale's ends, by default those of the lines. `level`: a height that is
    marked; `mark`: a place on x that is, with its words.
    """

    title: str
    lines: tuple[ChartLine, ...]
    ticks: tuple[tuple[float, str], ...]
    lead: str = ""
    low: float | None = None
    high: float | None = None
    form: str = "{:.3f}"
    level: float | None = None
    mark: tuple[float, str] | None = None


@short
@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn for a terminal alone: a function from cells to lines of at most so many."""

    draw: Callable[[int], Iterable[str]]


@short
@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks behind a line to click on; a terminal has none of them."""

    summary: str
    blocks: tuple[Block, ...]


@short
@dataclass(frozen=True, slots=True)
class Listing:
    """Text as it is, line by line, like JSON or an exact prompt."""

    text: str


@short
@dataclass(frozen=True, slots=True)
class Widget:
    """A part of a page with a script of its own: template, script and data by name."""

    template: str
    values: Mapping[str, object]
    script: str = ""
    data: object = None


@short
@dataclass(frozen=True, slots=True)
class On:
    """Blocks for one renderer alone: "terminal" or "page"."""

    where: str
    blocks: tuple[Block, ...]


Block = (
    str | Heading | Prose | Details | Table | ToCopy | HeatMap | Chart | Drawn | Folded | Listing
    | Widget | On
)  # fmt: skip
"""A plain string is a line of its own; too long, it goes on below, two deeper than it begins."""


@short
@dataclass(frozen=True, slots=True)
class Document:
    """A whole report. `title`: what a page is called; `question`: what it answers, as its head.

    `command`: the words that made it. `width`: columns that a terminal's lines take at most.
    """

    title: str
    blocks: tuple[Block, ...]
    command: str = ""
    question: str = ""
    width: int = 80

    def tables(self) -> Iterator[Table]:
        """Its tables, in order."""
        yield from _tables(self.blocks)


def plot(marks: Mapping[str, Callable[[Any], float | None]], low: float, room: int = 30) -> Column:
    """A column that plots values from `low` to 1, a character each; of two in one place the first
    is seen. Its head is the scale.
    """

    def plotted(row: object) -> str:
        line = [" "] * room
        for mark, of in reversed(tuple(marks.items())):
            value = of(row)
            if value is not None:
                line[round((value - low) / (1.0 - low) * (room - 1))] = mark
        return "".join(line).rstrip()

    scale = f"{f'{low:.1f}'.ljust(room - 3)}1.0"
    return Column(scale, room + 2, plotted, align="<", key="plot")


def on_page(*blocks: Block) -> On:
    """Blocks that a terminal has no use for."""
    return On("page", blocks)


def in_terminal(*blocks: Block) -> On:
    """Blocks that a page shows in another way."""
    return On("terminal", blocks)


def _tables(blocks: Iterable[Block]) -> Iterator[Table]:
    for block in blocks:
        match block:
            case Table():
                yield block
            case On() | Folded():
                yield from _tables(block.blocks)
            case _:
                pass
