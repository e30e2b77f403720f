"""What `ropewalk explain` prints: short tables and a sentence each, in 80 columns of ASCII."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from ropewalk.explain.encodings import EncodingRow
    from ropewalk.explain.order import Order
    from ropewalk.explain.raw_index import RawIndex
    from ropewalk.explain.scale import ScaleRow

WIDTH = 80


def order_lines(order: Order) -> Iterator[str]:
    """The order problem, then the raw index's three failures."""
    first, second = " ".join(order.first), " ".join(order.second)
    yield f"{first} / {second}, through one layer of unmasked self-attention"
    yield ""
    yield f"{'position':<12}{'all words':>14}{'at bites':>14}"
    for row in order.rows:
        yield f"{row.encoding:<12}{row.unpermuted:>14.3g}{row.at_bites:>14.3g}"
    yield ""
    yield from _wrapped(
        "How far a word's outputs in the two sentences are apart, as a share of the longest "
        "output. Without position they only change places, and what comes out at bites is the "
        "same whoever bites whom; with it they differ."
    )
    yield ""
    yield from _index_lines(order.raw_index)


def _index_lines(raw: RawIndex) -> Iterator[str]:
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
    yield f"   {'':<12}{'near':>12}{'far':>12}{'map error':>12}"
    for each_gap in raw.relative:
        near, far = (f"{value:,.3f}" for value in (each_gap.near, each_gap.far))
        yield f"   {each_gap.encoding:<12}{near:>12}{far:>12}{each_gap.residual:>12.1e}"


def scale_lines(rows: Sequence[ScaleRow]) -> Iterator[str]:
    """The shares of token and position, without and with sqrt(d_model)."""
    yield from _wrapped(
        "Rows of a fresh table (variance 1/d_model) plus a sinusoidal encoding, without and with "
        "sqrt(d_model) on the rows."
    )
    yield ""
    yield f"{'':<16}{'share of token':>18}{'other token,':>18}{'same token,':>18}"
    yield f"{'':<16}{'':>18}{'same position':>18}{'other position':>18}"
    yield f"{'d_model':>8}{'sqrt':>8}" + f"{'plain':>10}{'scaled':>8}" * 3
    for row in rows:
        cells = "".join(
            f"{plain:>10.4f}{scaled:>8.4f}"
            for plain, scaled in (
                (row.plain.identity, row.scaled.identity),
                (row.plain.other_token, row.scaled.other_token),
                (row.plain.other_position, row.scaled.other_position),
            )
        )
        yield f"{row.d_model:>8}{row.factor:>8.1f}{cells}"
    yield ""
    yield from _wrapped(
        "Share: of the squared length, what comes from the token. The other columns are mean "
        "cosines. Without the scale two different tokens at one position are nearly the same "
        "vector: position drowns identity, more with every channel. With it a token is nearer to "
        "itself elsewhere than to another token at its place."
    )


def encodings_lines(rows: Sequence[EncodingRow]) -> Iterator[str]:
    """Every encoding in words, then its figures."""
    yield "Every encoding: what it adds, to what, and what it is known to do"
    yield ""
    yield from _drawn(_words_table(rows))
    yield ""
    yield "Three properties of each, measured"
    yield ""
    yield from _drawn(_figures_table(rows))
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


def _words_table(rows: Sequence[EncodingRow]) -> Table:
    heads = ("", "parameters", "applied to", "encodes", "beyond trained length", "typical users")
    table = _table(heads, widths=(10, 10, 10, 12, 16, 12))
    for row in rows:
        words = row.description
        table.add_row()
        table.add_row(
            words.name,
            words.parameters,
            words.applied_to,
            words.encodes,
            words.beyond_trained_length,
            words.typical_users,
        )
    return table


def _figures_table(rows: Sequence[EncodingRow]) -> Table:
    heads = ("", "farthest", "bounded", "largest", "unique", "closest", "relative", "error")
    table = _table(heads, widths=None)
    for row in rows:
        found = row.figures
        table.add_row(
            row.description.name,
            f"{found.farthest:,}",
            _said(found.bounded),
            f"{found.largest:.3g}",
            _said(found.unique),
            f"{found.smallest_distance:.2g}",
            _said(found.relative_linear),
            f"{found.residual:.1e}",
        )
    return table


def _said(answer: bool) -> str:
    return "yes" if answer else "no"


def _table(heads: Sequence[str], widths: Sequence[int] | None) -> Table:
    """An empty table: words in columns of these widths, or figures, which stand to the right."""
    from rich.table import Table

    figures = widths is None
    table = Table(box=None, pad_edge=False, padding=(0, 1 if figures else 2, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(
            head,
            justify="right" if figures and place else "left",
            width=None if widths is None else widths[place],
            no_wrap=figures,
        )
    return table


def _drawn(table: Table) -> Iterator[str]:
    """A rich table as plain lines of at most 80 columns."""
    from rich.console import Console

    console = Console(width=WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    yield from (line.rstrip() for line in captured.get().splitlines())


def _wrapped(text: str, hang: int = 0) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH, subsequent_indent=" " * hang, break_on_hyphens=False)
