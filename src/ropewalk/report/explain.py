"""What position is for, in documents: order, scale, every encoding, and joined documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from operator import attrgetter

from ropewalk.explain.encodings import EncodingRow
from ropewalk.explain.join import JoinLeak, JoinReading
from ropewalk.explain.order import OrderDemo, RawIndexFailures
from ropewalk.explain.scale import ScaleRow
from ropewalk.report.document import (
    Block,
    Column,
    Document,
    Drawn,
    Prose,
    Table,
    in_terminal,
    on_page,
)
from ropewalk.report.text import clip, wrapped

_WIDTH = 80
_HANG = " " * 3


def order_document(order: OrderDemo) -> Document:
    """The order problem, then the raw index's three failures."""
    question = "Who bites whom?"
    return Document("Order", tuple(_order(order)), "ropewalk explain order", question)


def scale_document(rows: Sequence[ScaleRow]) -> Document:
    """The shares of token and position, without and with sqrt(d_model)."""
    question = "Why does sqrt(d_model) stand before the token vectors?"
    return Document("Scale", tuple(_scale(rows)), "ropewalk explain scale", question)


def encodings_document(rows: Sequence[EncodingRow]) -> Document:
    """Every encoding in words, then its figures."""
    question = "What does each encoding of position do?"
    blocks = tuple(_encodings(rows))
    return Document("Encodings", blocks, "ropewalk explain encodings", question)


def join_document(name: str, join: JoinLeak) -> Document:
    """B alone, then each way of joining A and B."""
    question = "What leaks from one packed document into the next?"
    return Document(name, tuple(_join(name, join)), "ropewalk explain join", question)


def join_values(name: str, join: JoinLeak) -> dict[str, object]:
    """All of it as plain JSON values."""
    return {"schema": "ropewalk.explain.join/1", "model": name, **asdict(join)}


def _order(order: OrderDemo) -> Iterator[Block]:
    first, second = " ".join(order.first), " ".join(order.second)
    yield f"{first} / {second}, through one layer of unmasked self-attention"
    yield ""
    columns = (
        Column("position", 12, attrgetter("encoding")),
        Column("all words", 14, attrgetter("unpermuted"), "{:.3g}"),
        Column("at bites", 14, attrgetter("at_bites"), "{:.3g}"),
    )
    yield Table(columns, order.rows, key="order")
    yield ""
    yield Prose(
        "How far a word's outputs in the two sentences are apart, as a share of the longest "
        "output. Without position they only change places, and what comes out at bites is the "
        "same whoever bites whom; with it they differ."
    )
    yield ""
    yield from _index_lines(order.raw_index)


def _index_lines(raw: RawIndexFailures) -> Iterator[Block]:
    decides = raw.decides
    yield "Appending the index itself to each vector fails three ways:"
    yield ""
    yield Prose(
        f"1. It decides every dot product. Beside {decides.components} components of +-1, which "
        f"make at most {decides.content_largest:,.0f} here, it adds up to "
        f"{decides.index_product:,.0f} at position {decides.position:,}. "
        f"{decides.latest_chosen:.0%} of the queries there score the latest key highest, "
        f"whatever it holds; without the index {decides.latest_without:.1%} do.",
        rest=_HANG,
    )
    yield ""
    unseen = raw.unseen[0]
    yield Prose(
        f"2. A model trained on positions 0 to {unseen.trained - 1:,} has never seen "
        f"{unseen.position:,}: the largest component there over the largest trained on, and the "
        "distance to the nearest encoding trained on, in spreads of those (any two of which are "
        "1.41 apart on average).",
        rest=_HANG,
    )
    columns = (
        Column("", 15, attrgetter("encoding"), key="encoding"),
        Column("largest", 12, attrgetter("largest"), "{:.2f}"),
        Column("distance", 12, attrgetter("distance"), "{:.2f}"),
    )
    yield Table(columns, raw.unseen, indent=3, key="unseen")
    yield ""
    yield Prose(
        "3. It holds no distance, which has to be made by subtraction: the product of the same "
        "gap of 2, near (3 and 1) and far (503 and 501), and the error of the best fixed linear "
        "map from the encoding of p to that of p + k, as a share of the largest value.",
        rest=_HANG,
    )
    gaps = (
        Column("", 15, attrgetter("encoding"), key="encoding"),
        Column("near", 12, attrgetter("near"), "{:,.3f}"),
        Column("far", 12, attrgetter("far"), "{:,.3f}"),
        Column("map error", 12, attrgetter("residual"), "{:.1e}"),
    )
    yield Table(gaps, raw.relative, indent=3, key="relative")


def _scale(rows: Sequence[ScaleRow]) -> Iterator[Block]:
    yield Prose(
        "Rows of a fresh table (variance 1/d_model) plus a sinusoidal encoding, without and with "
        "sqrt(d_model) on the rows."
    )
    yield ""
    columns = [
        Column("d_model", 8, attrgetter("d_model"), align=">"),
        Column("sqrt", 8, attrgetter("factor"), "{:.1f}"),
    ]
    for name, key in (
        ("share", "identity"),
        ("other token", "other_token"),
        ("other place", "other_position"),
    ):
        plain, scaled = attrgetter(f"plain.{key}"), attrgetter(f"scaled.{key}")
        columns.append(Column(name, 13, plain, "{:.4f}", key=key))
        columns.append(Column("scaled", 8, scaled, "{:.4f}", key=f"{key}_scaled"))
    yield Table(columns, rows, key="scale")
    yield ""
    yield Prose(
        "Share: of the squared length, what comes from the token. Other token: the mean cosine of "
        "two tokens at one position; other place: of one token at two positions. Scaled: with "
        "sqrt(d_model). Without it two different tokens at one position are nearly the same "
        "vector: position drowns identity, more with every channel. With it a token is nearer to "
        "itself elsewhere than to another token at its place."
    )


def _encodings(rows: Sequence[EncodingRow]) -> Iterator[Block]:
    yield "Every encoding: what it adds, to what, and what it is known to do"
    yield ""
    yield in_terminal(Drawn(lambda width: _words(rows, width)))
    heads = zip(_HEADS, _DESCRIBED, strict=True)
    columns = tuple(
        Column(head, of=attrgetter(f"description.{name}"), align="<", key=name)
        for head, name in heads
    )
    yield on_page(Table(columns, rows, words=True, key="encodings"))
    yield ""
    yield "Three properties of each, measured"
    yield ""
    yield _figures(rows)
    yield ""
    yield Prose(
        "Bounded: no value up to the farthest position is larger than among positions 0 to 1,023; "
        "largest is the largest anywhere. Unique: no two of those positions have the same values; "
        "closest is the smallest distance between two. Relative: one fixed linear map leads from "
        "the values at p to those at p + k, for k = 1, 7 and 64; error is that of the best such "
        "map on positions it was not fitted to, as a share of the largest value."
    )
    yield ""
    yield Prose(
        "Values: the vector added to the input; a query and a key of ones, rotated; the bias on "
        "the score of a key that far back, one per head, beside a constant 1. Tables and biases "
        "that are trained are measured as they are drawn, before training."
    )


_HEADS = ("", "parameters", "applied to", "encodes", "beyond trained length", "typical users")
_DESCRIBED = (
    "name", "parameters", "applied_to", "encodes", "beyond_trained_length", "typical_users",
)  # fmt: skip
_SIZES = (10, 10, 10, 12, 16, 12)


def _words(rows: Sequence[EncodingRow], width: int) -> Iterator[str]:
    """The encodings in words: a table where it fits, else each of them in a paragraph a column."""
    cells = [[getattr(row.description, name) for name in _DESCRIBED] for row in rows]
    if width >= _WIDTH:
        yield from _drawn(cells)
        return
    for name, *others in cells:
        yield ""
        yield from wrapped(name, width)
        for head, text in zip(_HEADS[1:], others, strict=True):
            yield from wrapped(f"{head}: {text}", width, "  ", "    ")


def _drawn(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Words in columns, as rich draws them, in lines of _WIDTH."""
    from rich.console import Console
    from rich.table import Table as Columns

    table = Columns(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head, size in zip(_HEADS, _SIZES, strict=True):
        table.add_column(head, width=size)
    for row in cells:
        table.add_row()
        table.add_row(*row)
    console = Console(width=_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    yield from (line.rstrip() for line in captured.get().splitlines())


def _figures(rows: Sequence[EncodingRow]) -> Table:
    def figure(name: str, form: str | Callable[[bool], str], head: str = "") -> Column:
        return Column(head or name, 0, attrgetter(f"figures.{name}"), form, key=name)

    columns = (
        Column("", 0, attrgetter("description.name"), key="name"),
        figure("farthest", "{:,}"),
        figure("bounded", _yes),
        figure("largest", "{:.3g}"),
        figure("unique", _yes),
        figure("smallest_distance", "{:.2g}", "closest"),
        figure("relative_linear", _yes, "relative"),
        figure("residual", "{:.1e}", "error"),
    )
    return Table(columns, rows, key="figures")


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _join(name: str, join: JoinLeak) -> Iterator[Block]:
    number = len(join.pairs)
    pairs = "1 pair of documents" if number == 1 else f"{number} pairs of documents"
    own = join.alone.value_a is None
    asked = "" if own else ", which state one fact differently; B's is asked for"
    yield Prose(
        f"{name}, {pairs}{asked}. The boundary token is {join.boundary}. A "
        "stands before B in one row; each way keeps what the one above it has."
    )
    first = join.pairs[0]
    yield ""
    yield Prose(f"A: {clip(first.a, 200)}", rest=_HANG)
    yield Prose(f"B: {clip(first.b, 200)}", rest=_HANG)
    yield ""
    columns = [Column("", 18, attrgetter("way"), key="way")]
    if own:
        columns.append(Column("loss of B", 14, attrgetter("loss"), "{:.4f}", key="loss"))
    else:
        columns += [
            Column("A's value", 11, attrgetter("value_a"), "{:.2f}", key="value_a"),
            Column("B's value", 11, attrgetter("value_b"), "{:.2f}", key="value_b"),
            Column("misled", 10, attrgetter("misled"), f"{{}} of {number}"),
        ]
    columns += [
        Column("logits: mean", 16, attrgetter("mean"), "{:.2g}", key="mean"),
        Column("most", 12, attrgetter("most"), "{:.2g}"),
    ]
    readings: tuple[JoinReading, ...] = (join.alone, *join.readings)
    yield Table(columns, readings, key="readings")
    yield ""
    yield from _meaning(join)


_EQUAL = 1e-4


def _meaning(join: JoinLeak) -> Iterator[Block]:
    nothing, masked = join.readings[0], join.readings[-1]
    if join.alone.value_a is not None:
        yield Prose(
            "Values are natural logarithms of their probability where B's is asked for; misled "
            "are pairs in which A's is the likelier."
        )
    yield Prose("Logits: by how much B's differ from those of B alone.")
    if masked.most <= _EQUAL < nothing.most:
        boundary, reset = (each.mean / nothing.mean for each in join.readings[1:3])
        yield Prose(
            "Nothing but the mask keeps A out of B: the mean change with a boundary token is "
            f"{boundary:.0%}, and with positions reset {reset:.0%}, of what it is with nothing "
            "between."
        )
    if masked.most > _EQUAL:
        yield Prose(
            f"With the mask B's logits still differ by up to {masked.most:.2g}: this model does "
            "not read a document behind another as it reads it alone, be it that rounding "
            "differs, or that it does not take the mask or the positions that it is given."
        )
