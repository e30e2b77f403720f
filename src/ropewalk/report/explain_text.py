"""What `ropewalk explain` prints: short tables and a sentence each, in 80 columns of ASCII."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ropewalk.report.layout import Drawn, Piece, Prose, Table, lines, wrapped

if TYPE_CHECKING:
    from ropewalk.explain.encodings import EncodingRow
    from ropewalk.explain.order import OrderDemo, RawIndexFailures
    from ropewalk.explain.scale import ScaleRow

WIDTH = 80


def order_lines(order: OrderDemo, width: int = WIDTH) -> Iterator[str]:
    """The order problem, then the raw index's three failures, in `width` columns."""
    yield from lines(_order(order), min(width, WIDTH))


def _order(order: OrderDemo) -> Iterator[Piece]:
    first, second = " ".join(order.first), " ".join(order.second)
    yield f"{first} / {second}, through one layer of unmasked self-attention"
    yield ""
    table = [(f"{'position':<12}", f"{'all words':>14}", f"{'at bites':>14}")]
    table += [
        (f"{row.encoding:<12}", f"{row.unpermuted:>14.3g}", f"{row.at_bites:>14.3g}")
        for row in order.rows
    ]
    yield Table(table)
    yield ""
    yield from _wrapped(
        "How far a word's outputs in the two sentences are apart, as a share of the longest "
        "output. Without position they only change places, and what comes out at bites is the "
        "same whoever bites whom; with it they differ."
    )
    yield ""
    yield from _index_lines(order.raw_index)


def _index_lines(raw: RawIndexFailures) -> Iterator[Piece]:
    decides = raw.decides
    yield "Appending the index itself to each vector fails three ways:"
    yield ""
    yield from _wrapped(
        f"1. It decides every dot product. Beside {decides.components} components of +-1, which "
        f"make at most {decides.content_largest:,.0f} here, it adds up to "
        f"{decides.index_product:,.0f} at position {decides.position:,}. "
        f"{decides.latest_chosen:.0%} of the queries there score the latest key highest, "
        f"whatever it holds; without the index {decides.latest_without:.1%} do.",
        hang=3,
    )
    yield ""
    unseen = raw.unseen[0]
    yield from _wrapped(
        f"2. A model trained on positions 0 to {unseen.trained - 1:,} has never seen "
        f"{unseen.position:,}: the largest component there over the largest trained on, and the "
        "distance to the nearest encoding trained on, in spreads of those (any two of which are "
        "1.41 apart on average).",
        hang=3,
    )
    yield f"   {'':<12}{'largest':>12}{'distance':>12}"
    for each in raw.unseen:
        yield f"   {each.encoding:<12}{each.largest:>12.2f}{each.distance:>12.2f}"
    yield ""
    yield from _wrapped(
        "3. It holds no distance, which has to be made by subtraction: the product of the same "
        "gap of 2, near (3 and 1) and far (503 and 501), and the error of the best fixed linear "
        "map from the encoding of p to that of p + k, as a share of the largest value.",
        hang=3,
    )
    heads = (f"{head:>12}" for head in ("near", "far", "map error"))
    table = [(" " * 15, *heads)]
    for each_gap in raw.relative:
        near, far = (f"{value:,.3f}" for value in (each_gap.near, each_gap.far))
        figures = (f"{near:>12}", f"{far:>12}", f"{each_gap.residual:>12.1e}")
        table.append((f"   {each_gap.encoding:<12}", *figures))
    yield Table(table)


def scale_lines(rows: Sequence[ScaleRow], width: int = WIDTH) -> Iterator[str]:
    """The shares of token and position, without and with sqrt(d_model), in `width` columns."""
    yield from lines(_scale(rows), min(width, WIDTH))


def _scale(rows: Sequence[ScaleRow]) -> Iterator[Piece]:
    yield from _wrapped(
        "Rows of a fresh table (variance 1/d_model) plus a sinusoidal encoding, without and with "
        "sqrt(d_model) on the rows."
    )
    yield ""
    table = [
        (" " * 16, f"{'share of token':>18}", f"{'other token,':>18}", f"{'same token,':>18}"),
        (" " * 16, " " * 18, f"{'same position':>18}", f"{'other position':>18}"),
        (f"{'d_model':>8}{'sqrt':>8}", *[f"{'plain':>10}{'scaled':>8}"] * 3),
    ]
    for row in rows:
        cells = (
            f"{plain:>10.4f}{scaled:>8.4f}"
            for plain, scaled in (
                (row.plain.identity, row.scaled.identity),
                (row.plain.other_token, row.scaled.other_token),
                (row.plain.other_position, row.scaled.other_position),
            )
        )
        table.append((f"{row.d_model:>8}{row.factor:>8.1f}", *cells))
    yield Table(table)
    yield ""
    yield from _wrapped(
        "Share: of the squared length, what comes from the token. The other columns are mean "
        "cosines. Without the scale two different tokens at one position are nearly the same "
        "vector: position drowns identity, more with every channel. With it a token is nearer to "
        "itself elsewhere than to another token at its place."
    )


def encodings_lines(rows: Sequence[EncodingRow], width: int = WIDTH) -> Iterator[str]:
    """Every encoding in words, then its figures, in `width` columns."""
    yield from lines(_encodings(rows), min(width, WIDTH))


def _encodings(rows: Sequence[EncodingRow]) -> Iterator[Piece]:
    yield "Every encoding: what it adds, to what, and what it is known to do"
    yield ""
    yield Drawn(lambda width: _words(rows, width))
    yield ""
    yield "Three properties of each, measured"
    yield ""
    yield _figures(rows)
    yield ""
    yield from _wrapped(
        "Bounded: no value up to the farthest position is larger than among positions 0 to 1,023; "
        "largest is the largest anywhere. Unique: no two of those positions have the same values; "
        "closest is the smallest distance between two. Relative: one fixed linear map leads from "
        "the values at p to those at p + k, for k = 1, 7 and 64; error is that of the best such "
        "map on positions it was not fitted to, as a share of the largest value."
    )
    yield ""
    yield from _wrapped(
        "Values: the vector added to the input; a query and a key of ones, turned; the bias on "
        "the score of a key that far back, one a head, beside a constant 1. Tables and biases "
        "that are trained are measured as they are drawn, before training."
    )


_HEADS = ("", "parameters", "applied to", "encodes", "beyond trained length", "typical users")
_SIZES = (10, 10, 10, 12, 16, 12)


def _words(rows: Sequence[EncodingRow], width: int) -> Iterator[str]:
    """The encodings in words: a table where it fits, else each of them in a paragraph a column."""
    described = [row.description for row in rows]
    cells = [
        (
            words.name, words.parameters, words.applied_to, words.encodes,
            words.beyond_trained_length, words.typical_users,
        )
        for words in described
    ]  # fmt: skip
    if width >= WIDTH:
        yield from _drawn(cells)
        return
    for name, *others in cells:
        yield ""
        yield from wrapped(name, width)
        for head, text in zip(_HEADS[1:], others, strict=True):
            yield from wrapped(f"{head}: {text}", width, "  ", "    ")


def _figures(rows: Sequence[EncodingRow]) -> Table:
    heads = ("", "farthest", "bounded", "largest", "unique", "closest", "relative", "error")
    found = [row.figures for row in rows]
    columns = [
        [row.description.name for row in rows],
        [f"{each.farthest:,}" for each in found],
        [_said(each.bounded) for each in found],
        [f"{each.largest:.3g}" for each in found],
        [_said(each.unique) for each in found],
        [f"{each.smallest_distance:.2g}" for each in found],
        [_said(each.relative_linear) for each in found],
        [f"{each.residual:.1e}" for each in found],
    ]
    padded = []
    for head, column in zip(heads, columns, strict=True):
        wide = max(map(len, (head, *column)))
        before = " " if head else ""
        padded.append([
            before + (cell.rjust(wide) if head else cell.ljust(wide)) for cell in (head, *column)
        ])  # fmt: skip
    return Table(list(zip(*padded, strict=True)))


def _said(answer: bool) -> str:
    return "yes" if answer else "no"


def _drawn(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Words in columns, as rich draws them, in lines of WIDTH."""
    from rich.console import Console
    from rich.table import Table as Columns

    table = Columns(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head, size in zip(_HEADS, _SIZES, strict=True):
        table.add_column(head, width=size)
    for row in cells:
        table.add_row()
        table.add_row(*row)
    console = Console(width=WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    yield from (line.rstrip() for line in captured.get().splitlines())


def _wrapped(text: str, hang: int = 0) -> Iterator[Piece]:
    yield Prose(text, rest=" " * hang)
