"""Clusters of a table's rows as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.document import Block, Column, Document, Prose, Table
from ropewalk.tables.clusters import JUDGED, RESTARTS, Clusters

if TYPE_CHECKING:
    from ropewalk.tables.open import EmbeddingTable

_BAR = 16
_NAMED = 8


def document(found: Clusters, table: EmbeddingTable) -> Document:
    """What was clustered and how, each cluster, and how good they are."""
    title = f"{table.tables.title}: clusters"
    question = f"Which rows of {table.tables.title} point alike?"
    blocks = tuple(_blocks(found, table))
    return Document(title, blocks, "ropewalk table clusters", question, width=100)


def _blocks(found: Clusters, table: EmbeddingTable) -> Iterator[Block]:
    yield f"{table.tables.title}: {len(found.clusters)} clusters of {found.chosen.line}"
    yield Prose(
        f"k-means on rows at length 1; centres fitted on {found.fitted:,} rows, best of {RESTARTS} "
        f"starts, seed {found.seed}; every row in the cluster of its nearest centre"
    )
    yield ""
    most = found.clusters[0].size
    columns = (
        Column("", 4, lambda row: row[0], align=">", key="cluster"),
        Column("rows", 9, lambda row: row[1].size, "{:,}"),
        Column("", _BAR + 2, lambda row: row[1].size / most, _bar, "<", key="share"),
        Column("cosine", 8, lambda row: row[1].cosine, "{:.3f}"),
        Column(
            "central tokens",
            0,
            lambda row: "  ".join(table.label(each) for each, _ in row[1].central),
            align="<",
        ),
    )
    yield Table(columns, list(enumerate(found.clusters)), words=True, key="clusters")
    yield ""
    yield Prose("cosine: mean of a cluster's rows with its centre; 1 where all point alike")
    yield from map(Prose, quality(found))


def _bar(share: float) -> str:
    return "#" * max(1, round(_BAR * share))


def quality(found: Clusters) -> Iterator[str]:
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


def _first(rows: tuple[int, ...]) -> str:
    named = ", ".join(map(str, rows[:_NAMED]))
    return f"{named}, ..." if len(rows) > _NAMED else named
