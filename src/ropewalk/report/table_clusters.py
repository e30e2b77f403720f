"""Clusters of a table's rows as a document: each with its size and what is central to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.document import Block, Column, Document, Table
from ropewalk.tables.clusters import JUDGED, RESTARTS, Cluster, Clusters

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable

WIDTH = 100
_BAR = 16
_NAMED = 8


def document(found: Clusters, *, table: EmbeddingTable) -> Document:
    """What was clustered and how, each cluster, how good they are."""
    title = table.tables.title
    question = f"Which rows of {title} point alike?"
    blocks = tuple(_blocks(found, table))
    return Document(title, blocks, "ropewalk table clusters", question, WIDTH)


def _blocks(found: Clusters, table: EmbeddingTable) -> Iterator[Block]:
    yield f"{table.tables.title}: {len(found.clusters)} clusters of {found.chosen.line}"
    yield (
        f"k-means on rows at length 1; centres fitted on {found.fitted:,} rows, best of {RESTARTS} "
        f"starts, seed {found.seed}; every row in the cluster of its nearest centre"
    )
    yield ""
    most = found.clusters[0].size

    def named(one: Cluster) -> str:
        return "  ".join(table.label(row) for row, _ in one.central)

    columns = (
        Column("", 4, found.clusters.index, align=">", key="cluster"),
        Column("rows", 10, lambda one: one.size, "{:,}"),
        Column("", _BAR + 2, lambda one: "#" * max(1, round(_BAR * one.size / most)), align="<"),
        Column("cosine", 9, lambda one: one.cosine, "{:.3f}"),
        Column("central tokens", 0, named, align="<"),
    )
    yield Table(columns, found.clusters, words=True, key="clusters")
    yield ""
    yield "cosine: mean of a cluster's rows with its centre; 1 where all point alike"
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
            first = ", ".join(map(str, rows[:_NAMED])) + ", ..." * (len(rows) > _NAMED)
            yield f"without a direction, in no cluster: {len(rows):,} rows ({what}): {first}"


def values(found: Clusters, table: EmbeddingTable) -> dict[str, object]:
    """The same as plain values, with the cluster of every row (-1 for none)."""
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
