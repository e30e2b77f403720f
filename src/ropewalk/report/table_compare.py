"""Two tables set side by side, in a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.layout import Piece, Prose, Table, fit, lines
from ropewalk.report.text import visible

if TYPE_CHECKING:
    from ropewalk.tables.movement import Movement, TableComparison
    from ropewalk.tables.open import EmbeddingTable

WIDTH = 80
LABEL = 24


def compare_lines(
    found: TableComparison, names: tuple[str, str], top: int, width: int = WIDTH
) -> Iterator[str]:
    """The whole comparison of tables called `names`, `top` tokens in each list, in `width`
    columns, WIDTH at most.
    """
    yield from lines(_pieces(found, names, top), min(width, WIDTH))


def _pieces(found: TableComparison, names: tuple[str, str], top: int) -> Iterator[Piece]:
    yield from _wrapped(f"A  {visible(names[0])}: {visible(found.one.name)}, {_shape(found.one)}")
    yield from _wrapped(
        f"B  {visible(names[1])}: {visible(found.other.name)}, {_shape(found.other)}"
    )
    yield ""
    yield from _coverage(found)
    if not found.kept:
        yield "No shared token has a direction in both tables, so nothing more can be compared."
        return
    yield from _ratios(found)
    if found.raw is None:
        yield ""
        yield from _wrapped(
            f"Rows of {found.one.width:,} and {found.other.width:,} numbers cannot be set against "
            "each other, nor turned into each other; what is left to compare is who a token's "
            "neighbours are."
        )
    else:
        yield from _movement(found, found.raw, "As they are", top)
    if found.aligned is not None:
        yield from _movement(found, found.aligned, "After turning A onto B (Procrustes)", top)
        if len(found.kept) <= found.one.width:
            yield from _wrapped(
                f"Beware: {len(found.kept):,} tokens in {found.one.width:,} dimensions can be "
                "turned onto almost anything; what is left says little."
            )
    yield from _overlap(found, top)


def _shape(table: EmbeddingTable) -> str:
    rows, width = table.shape
    return f"{rows:,} x {width:,} {table.storage}, {table.view}"


def _coverage(found: TableComparison) -> Iterator[Piece]:
    shared, count = found.shared, len(found.shared)
    yield from _wrapped(
        f"{count:,} tokens are in both, {shared.rule}: {count / max(shared.tokens, 1):.1%} of A's "
        f"{shared.tokens:,}, {count / max(shared.other_tokens, 1):.1%} of B's "
        f"{shared.other_tokens:,}."
    )
    if shared.several:
        yield from _wrapped(
            f"{shared.several:,} more have several rows that no piece tells apart, and are left "
            "out."
        )
    for pairs, words in ((found.zero, "all zeros"), (found.not_finite, "NaN or infinity")):
        if pairs:
            first = ", ".join(visible(found.label(pair)) for pair in pairs[:5])
            more = ", ..." if len(pairs) > 5 else ""
            yield from _wrapped(
                f"{len(pairs):,} of them are rows of {words} in a table, and are left out of what "
                f"follows: {first}{more}"
            )


def _ratios(found: TableComparison) -> Iterator[Piece]:
    import torch

    known = found.ratios[list(found.kept)]
    low, middle, high = torch.quantile(
        known[:: max(1, len(known) // 1_000_000)], known.new_tensor([0.05, 0.5, 0.95])
    ).tolist()
    yield f"Norm in B over norm in A: median {middle:.4g}, 5 to 95 % {low:.4g} to {high:.4g}"


def _movement(found: TableComparison, moved: Movement, title: str, top: int) -> Iterator[Piece]:
    kept = list(found.kept)
    yield ""
    yield from _wrapped(
        f"{title}: mean cosine {float(moved.cosines[kept].mean()):.6f}, mean distance "
        f"{float(moved.distances[kept].mean()):.4g}, {moved.residual:.4g} of B's norm is left"
    )
    lists = (moved.most_turned(top), moved.furthest(top))
    # Two lists side by side, below each other where that is too wide.
    table = [
        (
            "  ",
            f"{'most turned':<{LABEL}}{'cosine':>10}",
            f"    {'furthest':<{LABEL}}{'distance':>10}",
        )
    ]
    for turned, far in zip(*lists, strict=True):
        one = f"{_label(found, turned)}{float(moved.cosines[turned]):>10.4f}"
        other = f"    {_label(found, far)}{float(moved.distances[far]):>10.4g}"
        table.append(("  ", one, other))
    yield Table(table)


def _overlap(found: TableComparison, top: int) -> Iterator[Piece]:
    overlap = found.overlap
    if overlap is None:
        return
    yield ""
    drawn = len(overlap.pairs)
    which = "all" if drawn == len(found.kept) else f"a seeded sample of {drawn:,}"
    yield from _wrapped(
        f"Of a token's {overlap.k} nearest shared tokens, {overlap.mean:.1%} are the same in both "
        f"({which} of {len(found.kept):,})."
    )
    yield f"  {'neighbours changed most':<{LABEL}}{'the same':>10}"
    for pair, share in overlap.lowest(top):
        yield f"  {_label(found, pair)}{share:>10.0%}"


def _label(found: TableComparison, pair: int) -> str:
    return f"{fit(visible(repr(found.label(pair))), LABEL - 1)} "


def _wrapped(text: str) -> Iterator[Piece]:
    yield Prose(text, rest="   ")
