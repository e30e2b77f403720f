"""Clusters of a table's rows in the terminal, and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.layout import Piece, Table, lines
from ropewalk.report.text import visible
from ropewalk.tables.clusters import JUDGED, RESTARTS, Clusters

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable

WIDTH = 100
_BAR = 16
_NAMED = 8


def cluster_lines(found: Clusters, table: EmbeddingTable, width: int = WIDTH) -> Iterator[str]:
    """What was clustered and how, each cluster, how good they are; in `width` columns, WIDTH at
    most.
    """
    yield from lines(_pieces(found, table), min(width, WIDTH))


def _pieces(found: Clusters, table: EmbeddingTable) -> Iterator[Piece]:
    yield f"{visible(table.tables.title)}: {len(found.clusters)} clusters of {found.chosen.line}"
    yield (
        f"k-means on rows at length 1; centres fitted on {found.fitted:,} rows, best of {RESTARTS} "
        f"starts, seed {found.seed}; every row in the cluster of its nearest centre"
    )
    yield ""
    rows = [("    ", f"{'rows':>9}", " " * (_BAR + 2), f"{'cosine':>8}", "  central tokens")]
    most = found.clusters[0].size
    for place, one in enumerate(found.clusters):
        bar = "#" * max(1, round(_BAR * one.size / most))
        named = "  ".join(visible(table.label(row)) for row, _ in one.central)
        figures = (f"{one.size:>9,}", f"  {bar:<{_BAR}}", f"{one.cosine:>8.3f}")
        rows.append((f"{place:>4}", *figures, f"  {named}"))
    yield Table(rows, text=True)
    yield ""
    yield "cosine: mean of a cluster's rows with its centre; 1 where all point alike"
    yield from quality_lines(found)


def quality_lines(found: Clusters) -> Iterator[str]:
    """How far rows are from their centres, how apart clusters are, and what was left out."""
    yield f"inertia {found.inertia:.4f}: mean squared distance from the centres"
    if found.silhouette is None:
        yield "silhouette: not defined for one cluster, or where each row is its own"
    else:
        yield (
            f"silhouette {found.silhouette:.4f} of {found.judged:,} rows"
            + (f", seed {found.seed}" if found.judged == JUDGED else "")
            + ": 1 for clusters far apart, 0 for clusters that touch, below for rows in a wrong one"
        )
    for what, rows in (
        ("all zeros", found.zero),
        ("NaN, infinity or beyond fp32's squares", found.not_finite),
    ):
        if rows:
            yield f"without a direction, in no cluster: {len(rows):,} rows ({what}): {_first(rows)}"


def document(found: Clusters, table: EmbeddingTable) -> dict[str, object]:
    """The same for `--json`, with the cluster of every row (-1 for none)."""
    return {
        "model": table.tables.title,
        "table": table.name,
        "view": table.view,
        "rows": found.chosen.line,
        "fitted": found.fitted,
        "seed": found.seed,
        "inertia": found.inertia,
        "silhouette": found.silhouette,
        "judged": found.judged,
        "zero": list(found.zero),
        "not_finite": list(found.not_finite),
        "clusters": [
            {
                "size": one.size,
                "cosine": one.cosine,
                "central": [
                    {"id": row, "token": table.label(row), "cosine": cosine}
                    for row, cosine in one.central
                ],
            }
            for one in found.clusters
        ],
        "labels": found.labels.tolist(),
    }


def _first(rows: tuple[int, ...]) -> str:
    named = ", ".join(map(str, rows[:_NAMED]))
    return f"{named}, ..." if len(rows) > _NAMED else named
