"""Two tables side by side as a document: what they share, what moved, whose neighbours changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.document import Block, Column, Document, Prose, Table
from ropewalk.report.text import cut

if TYPE_CHECKING:
    from ropewalk.tables.movement import Movement, TableComparison
    from ropewalk.tables.open import EmbeddingTable

WIDTH, LABEL = 80, 24


def document(found: TableComparison, *, names: tuple[str, str], top: int) -> Document:
    """The whole comparison of tables called `names`, `top` tokens in each list."""
    question = f"What moved between {names[0]} and {names[1]}?"
    blocks = tuple(_blocks(found, names, top))
    return Document(f"{names[0]} and {names[1]}", blocks, "ropewalk table compare", question, WIDTH)


def _blocks(found: TableComparison, names: tuple[str, str], top: int) -> Iterator[Block]:
    for letter, name, table in zip("AB", names, (found.one, found.other), strict=True):
        yield _prose(f"{letter}  {name}: {table.name}, {_shape(table)}")
    yield ""
    yield from _coverage(found)
    if not found.kept:
        yield "No shared token has a direction in both tables, so nothing more can be compared."
        return
    yield _ratios(found)
    if found.raw is None:
        yield ""
        yield _prose(
            f"Rows of {found.one.width:,} and {found.other.width:,} numbers cannot be set against "
            "each other, nor rotated into each other; what is left to compare is who a token's "
            "neighbours are."
        )
    else:
        yield from _movement(found, found.raw, "As they are", top)
    if found.aligned is not None:
        yield from _movement(found, found.aligned, "After rotating A onto B (Procrustes)", top)
        if len(found.kept) <= found.one.width:
            yield _prose(
                f"Beware: {len(found.kept):,} tokens in {found.one.width:,} dimensions can be "
                "rotated onto almost anything; what is left says little."
            )
    yield from _overlap(found, top)


def _shape(table: EmbeddingTable) -> str:
    rows, width = table.shape
    return f"{rows:,} x {width:,} {table.storage}, {table.view}"


def _coverage(found: TableComparison) -> Iterator[Block]:
    shared, count = found.shared, len(found.shared)
    yield _prose(
        f"{count:,} tokens are in both, {shared.rule}: {count / max(shared.tokens, 1):.1%} of A's "
        f"{shared.tokens:,}, {count / max(shared.other_tokens, 1):.1%} of B's "
        f"{shared.other_tokens:,}."
    )
    if shared.several:
        yield _prose(
            f"{shared.several:,} more have several rows that no piece tells apart, and are left "
            "out."
        )
    for pairs, words in ((found.zero, "all zeros"), (found.not_finite, "NaN or infinity")):
        if pairs:
            first = ", ".join(found.label(pair) for pair in pairs[:5])
            more = ", ..." if len(pairs) > 5 else ""
            yield _prose(
                f"{len(pairs):,} of them are rows of {words} in a table, and are left out of what "
                f"follows: {first}{more}"
            )


def _ratios(found: TableComparison) -> str:
    import torch

    known = found.ratios[list(found.kept)]
    low, middle, high = torch.quantile(
        known[:: max(1, len(known) // 1_000_000)], known.new_tensor([0.05, 0.5, 0.95])
    ).tolist()
    return f"Norm in B over norm in A: median {middle:.4g}, 5 to 95 % {low:.4g} to {high:.4g}"


def _movement(found: TableComparison, moved: Movement, title: str, top: int) -> Iterator[Block]:
    kept = list(found.kept)
    yield ""
    yield _prose(
        f"{title}: mean cosine {float(moved.cosines[kept].mean()):.6f}, mean distance "
        f"{float(moved.distances[kept].mean()):.4g}, {moved.residual:.4g} of B's norm is left"
    )
    for name, pairs in (
        ("lowest cosines", moved.most_turned(top)),
        ("furthest", moved.furthest(top)),
    ):
        columns = (
            Column(name, LABEL + 2, lambda pair: found.label(pair), _short),
            Column("cosine", 10, lambda pair: float(moved.cosines[pair]), "{:.4f}"),
            Column("distance", 10, lambda pair: float(moved.distances[pair]), "{:.4g}"),
        )
        yield Table(columns, pairs, indent=2, key=name)


def _overlap(found: TableComparison, top: int) -> Iterator[Block]:
    overlap = found.overlap
    if overlap is None:
        return
    yield ""
    drawn = len(overlap.pairs)
    which = "all" if drawn == len(found.kept) else f"a seeded sample of {drawn:,}"
    yield _prose(
        f"Of a token's {overlap.k} nearest shared tokens, {overlap.mean:.1%} are the same in both "
        f"({which} of {len(found.kept):,})."
    )
    columns = (
        Column("neighbours changed most", LABEL + 2, lambda row: found.label(row[0]), _short),
        Column("the same", 10, lambda row: row[1], "{:.0%}"),
    )
    yield Table(columns, overlap.lowest(top), indent=2, key="overlap")


def _short(label: str) -> str:
    return cut(repr(label), LABEL)


def _prose(text: str) -> Prose:
    return Prose(text, rest="   ", hyphens=False)


def values(
    found: TableComparison, *, names: tuple[str, str], top: int, seed: int
) -> dict[str, object]:
    """The same as plain values."""
    tables = [
        {"model": name, "tensor": table.name, "shape": table.shape, "view": table.view}
        for name, table in zip(names, (found.one, found.other), strict=True)
    ]
    shared, overlap, kept = found.shared, found.overlap, list(found.kept)
    return {
        "tables": tables,
        "shared": len(shared),
        "tokens": [shared.tokens, shared.other_tokens],
        "paired": shared.rule,
        "several_rows": shared.several,
        "compared": len(kept),
        "zero": [_token(found, pair) for pair in found.zero],
        "not_finite": [_token(found, pair) for pair in found.not_finite],
        "norm_ratio_median": float(found.ratios[kept].median()) if kept else None,
        "raw": _moved(found, found.raw, top),
        "aligned": _moved(found, found.aligned, top),
        "overlap": overlap
        and {
            "k": overlap.k,
            "sample": len(overlap.pairs),
            "seed": seed,
            "mean": overlap.mean,
            "lowest": [_token(found, p) | {"share": s} for p, s in overlap.lowest(top)],
        },
    }


def _moved(found: TableComparison, moved: Movement | None, top: int) -> dict[str, object] | None:
    if moved is None or not found.kept:
        return None
    kept = list(found.kept)

    def listed(pairs: list[int]) -> list[dict[str, object]]:
        return [
            _token(found, p)
            | {"cosine": float(moved.cosines[p]), "distance": float(moved.distances[p])}
            for p in pairs
        ]

    return {
        "mean_cosine": float(moved.cosines[kept].mean()),
        "mean_distance": float(moved.distances[kept].mean()),
        "residual": moved.residual,
        "most_turned": listed(moved.most_turned(top)),
        "furthest": listed(moved.furthest(top)),
    }


def _token(found: TableComparison, pair: int) -> dict[str, object]:
    return {
        "token": found.label(pair),
        "ids": [found.shared.rows[pair], found.shared.others[pair]],
    }
