"""Two tables set side by side, as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.document import Block, Column, Document, Heading, Prose, Table, on_page
from ropewalk.report.table_words import clipped
from ropewalk.report.text import listed

if TYPE_CHECKING:
    from ropewalk.tables.movement import Movement, TableComparison
    from ropewalk.tables.open import EmbeddingTable

LABEL = 24


def document(found: TableComparison, names: tuple[str, str], top: int) -> Document:
    """The whole comparison of tables called `names`, `top` tokens in each list."""
    title = f"{names[0]} and {names[1]}: tables compared"
    question = f"How do the tables of {names[0]} and {names[1]} differ?"
    blocks = tuple(_blocks(found, names, top))
    return Document(title, blocks, "ropewalk table compare", question)


def _blocks(found: TableComparison, names: tuple[str, str], top: int) -> Iterator[Block]:
    yield _said(f"A  {names[0]}: {found.one.name}, {_shape(found.one)}")
    yield _said(f"B  {names[1]}: {found.other.name}, {_shape(found.other)}")
    yield ""
    yield from _coverage(found)
    if not found.kept:
        yield "No shared token has a direction in both tables, so nothing more can be compared."
        return
    yield from _ratios(found)
    if found.raw is None:
        yield ""
        yield _said(
            f"Rows of {found.one.width:,} and {found.other.width:,} numbers cannot be set against "
            "each other, nor rotated onto each other; what is left to compare is who a token's "
            "neighbours are."
        )
    else:
        yield from _movement(found, found.raw, "As they are", top)
    if found.aligned is not None:
        yield from _movement(found, found.aligned, "After rotating A onto B (Procrustes)", top)
        if len(found.kept) <= found.one.width:
            yield _said(
                f"Beware: {len(found.kept):,} tokens in {found.one.width:,} dimensions can be "
                "rotated onto almost anything; what is left says little."
            )
    yield from _overlap(found, top)


def _shape(table: EmbeddingTable) -> str:
    rows, width = table.shape
    return f"{rows:,} x {width:,} {table.storage}, {table.view}"


def _coverage(found: TableComparison) -> Iterator[Block]:
    shared, count = found.shared, len(found.shared)
    yield _said(
        f"{count:,} tokens are in both, {shared.rule}: {count / max(shared.tokens, 1):.1%} of A's "
        f"{shared.tokens:,}, {count / max(shared.other_tokens, 1):.1%} of B's "
        f"{shared.other_tokens:,}."
    )
    if shared.several:
        yield _said(
            f"{shared.several:,} more have several rows that no piece tells apart, and are left "
            "out."
        )
    for pairs, words in ((found.zero, "all zeros"), (found.not_finite, "NaN or infinity")):
        if pairs:
            first = listed(map(found.label, pairs), 5)
            yield _said(
                f"{len(pairs):,} of them are rows of {words} in a table, and are left out of what "
                f"follows: {first}"
            )


def _ratios(found: TableComparison) -> Iterator[Block]:
    import torch

    known = found.ratios[list(found.kept)]
    low, middle, high = torch.quantile(
        known[:: max(1, len(known) // 1_000_000)], known.new_tensor([0.05, 0.5, 0.95])
    ).tolist()
    yield f"Norm in B over norm in A: median {middle:.4g}, 5 to 95 % {low:.4g} to {high:.4g}"


def _movement(found: TableComparison, moved: Movement, title: str, top: int) -> Iterator[Block]:
    kept = list(found.kept)
    yield ""
    yield on_page(Heading(title))
    yield _said(
        f"{title}: mean cosine {float(moved.cosines[kept].mean()):.6f}, mean distance "
        f"{float(moved.distances[kept].mean()):.4g}, {moved.residual:.4g} of B's norm is left"
    )
    for name, pairs, values, form in (
        ("most rotated", moved.most_rotated(top), moved.cosines, "{:.4f}"),
        ("furthest", moved.furthest(top), moved.distances, "{:.4g}"),
    ):
        kind = "cosine" if values is moved.cosines else "distance"
        columns = (
            Column(name, LABEL + 2, lambda row: row[0], _label, key="token"),
            Column(kind, 10, lambda row: row[1], form),
        )
        rows = [(found.label(pair), float(values[pair])) for pair in pairs]
        yield Table(columns, rows, indent=2, key=name)


def _overlap(found: TableComparison, top: int) -> Iterator[Block]:
    overlap = found.overlap
    if overlap is None:
        return
    yield ""
    drawn = len(overlap.pairs)
    which = "all" if drawn == len(found.kept) else f"a seeded sample of {drawn:,}"
    yield _said(
        f"Of a token's {overlap.k} nearest shared tokens, {overlap.mean:.1%} are the same in both "
        f"({which} of {len(found.kept):,})."
    )
    columns = (
        Column("neighbours changed most", LABEL + 2, lambda row: row[0], _label, key="token"),
        Column("the same", 10, lambda row: row[1], "{:.0%}"),
    )
    rows = [(found.label(pair), share) for pair, share in overlap.lowest(top)]
    yield Table(columns, rows, indent=2, key="neighbours")


def _label(token: str) -> str:
    return clipped(repr(token), LABEL - 1)


def _said(text: str) -> Prose:
    return Prose(text, rest="   ")
