"""A table's map as one HTML page, and the clusters of its rows as a document.

The map is points to pan, zoom, search and walk from neighbour to neighbour. Points, names and
neighbours are packed (deflate, base64) and drawn by the page's own script on a canvas; names reach
the page as text only. No network, one file (see `page`). What the map is of, which rows it leaves
out and how little two axes hold stands in plain HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ropewalk.report import page
from ropewalk.report.document import Block, Column, Document, Prose, Table
from ropewalk.report.prompt_pool import deflated
from ropewalk.report.text import clip, listed, visible
from ropewalk.tables.clusters import JUDGED, RESTARTS, Clusters
from ropewalk.tables.vocabulary import Shape, shape_of

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.principal import Projection, ShownNeighbours


NAME_LIMIT = 200
"""Characters of a token's name that the page holds."""
_STEPS = 32_767
"""Steps from the middle of the map to its edge, in which places are kept."""
_COSINE_STEPS = 10_000
_NORM_STEPS = 65_535
_BAR = 16
_NAMED = 8


@dataclass(slots=True)
class _Packer:
    """Arrays one behind the other in one deflated block; `parts` says where each lies."""

    parts: list[dict[str, object]] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)

    def add(self, name: str, array: np.ndarray) -> None:
        """Add an array, little-endian, at a place that suits its numbers."""
        self.data.extend(bytes(-len(self.data) % array.dtype.itemsize))
        kind = f"{array.dtype.kind}{8 * array.dtype.itemsize}"
        part = {"name": name, "kind": kind, "at": len(self.data), "count": array.size}
        self.parts.append(part)
        self.data += array.astype(array.dtype.newbyteorder("<")).tobytes()


def map_html(
    table: EmbeddingTable,
    shown: Projection,
    *,
    near: ShownNeighbours | None = None,
    clusters: Clusters | None = None,
) -> str:
    """The page. Raises MissingPartError without jinja2."""
    style = page.asset("table_map.css")
    script = page.asset("table_map.js")
    title = clip(table.tables.title, NAME_LIMIT)
    return (
        page.environment({"count": "{:,}".format})
        .get_template("table_map.html.j2")
        .render(
            title=title,
            facts=list(facts(table, shown, near, clusters)),
            shares=[f"{100 * share:.1f} %" for share in shown.axes.shares],
            both=f"{100 * sum(shown.axes.shares):.1f} %",
            width=table.width,
            shown=len(shown),
            coloured=_coloured(clusters),
            style=page.trusted(style),
            script=page.trusted(script),
            style_hash=page.policy_hash(style),
            script_hash=page.policy_hash(script),
            data=page.embedded(_data(table, shown, near, clusters)),
        )
    )


def facts(
    table: EmbeddingTable,
    shown: Projection,
    near: ShownNeighbours | None,
    clusters: Clusters | None,
) -> list[tuple[str, str]]:
    """What the map is of, as (name, words); the same lines the terminal prints."""
    mean = "about the mean" if shown.centred else "about zero, with the mean left in"
    first, second = (f"{100 * share:.1f} %" for share in shown.axes.shares)
    lines = [
        ("rows", shown.chosen.line),
        (
            "axes",
            f"the two widest of {table.width:,}, fitted on {shown.fitted:,} rows {mean}: they hold "
            f"{first} and {second} of the variance",
        ),
    ]
    if shown.not_finite:
        lines.append(
            (
                "not finite",
                f"{len(shown.not_finite):,} rows hold NaN, infinity or numbers beyond fp32's "
                f"squares and have no place: {listed(shown.not_finite, _NAMED)}",
            )
        )
    if shown.zero:
        lines.append(
            ("zero rows", f"{len(shown.zero):,} without a direction: {listed(shown.zero, _NAMED)}")
        )
    if near is not None:
        lines.append(
            (
                "neighbours",
                f"the {near.at.shape[1]} nearest of the rows shown, by cosine over all "
                f"{table.width:,} numbers",
            )
        )
    if clusters is not None:
        lines.append(
            (
                "clusters",
                f"k-means on rows at length 1, {len(clusters.clusters)} clusters fitted on "
                f"{clusters.fitted:,} rows, seed {clusters.seed}",
            )
        )
    lines.append(("table", table.line()))
    return lines


def _coloured(clusters: Clusters | None) -> list[tuple[str, str]]:
    """What points can be coloured by, as (value, words)."""
    ways = [("kind", "kind of token"), ("cluster", "cluster"), ("norm", "norm")]
    return [way for way in ways if way[0] != "cluster" or clusters is not None]


def _data(
    table: EmbeddingTable,
    shown: Projection,
    near: ShownNeighbours | None,
    clusters: Clusters | None,
) -> dict[str, object]:
    """Everything the script draws."""
    import numpy as np

    ids = shown.ids.tolist()
    packer = _Packer()
    packer.add("ids", shown.ids.numpy().astype(np.uint32))
    if near is not None:
        at = near.at.clone()
        at[at < 0] = 2**32 - 1
        packer.add("near", at.numpy().astype(np.uint32))
        cosines = (near.cosines.nan_to_num() * _COSINE_STEPS).round()
        packer.add("cosines", cosines.numpy().astype(np.int16))
    places, origin = _steps(shown.places)
    packer.add("places", places)
    low, high = float(shown.norms.min()), float(shown.norms.max())
    scaled = (shown.norms.double() - low) / ((high - low) or 1.0) * _NORM_STEPS
    packer.add("norms", scaled.round().numpy().astype(np.uint16))
    words = table.vocabulary
    kinds = [shape_of(words.token(row), words) if words is not None else Shape.NONE for row in ids]
    order = list(Shape)
    packer.add("kinds", np.array([order.index(kind) for kind in kinds], dtype=np.uint8))
    if clusters is not None:
        labels = clusters.labels[shown.ids]
        packer.add("clusters", labels.where(labels >= 0, 65_535).numpy().astype(np.uint16))
    names = json.dumps([visible(clip(table.label(row), NAME_LIMIT)) for row in ids]).encode()
    packer.add("names", np.frombuffer(names, dtype=np.uint8))
    return {
        "points": len(ids),
        "neighbours": 0 if near is None else near.at.shape[1],
        "kinds": [str(s) if words is not None else "row" for s in order],
        "clusters": []
        if clusters is None
        else [_cluster(c.central, table) for c in clusters.clusters],
        "norms": [low, high],
        "origin": origin,
        "parts": packer.parts,
        "packed": deflated(bytes(packer.data)),
    }


def _cluster(central: tuple[tuple[int, float], ...], table: EmbeddingTable) -> dict[str, object]:
    """A cluster's rows nearest its centre, and their names."""
    rows = [row for row, _ in central]
    names = [visible(clip(table.label(row), 24)) for row in rows[:3]]
    return {"rows": rows, "name": "  ".join(names)}


def _steps(places: Tensor) -> tuple[np.ndarray, list[float]]:
    """Places (n, 2) as steps from the middle, both axes at one scale: n numbers across, n up.

    And where both axes are zero, in the same steps.
    """
    import numpy as np

    low, high = places.min(0).values, places.max(0).values
    half = float((high - low).max()) / 2 or 1.0
    middle = (low + high) / 2
    steps = ((places - middle) / half * _STEPS).round()
    origin: list[float] = (-middle / half * _STEPS).tolist()
    return steps.T.contiguous().numpy().astype(np.int16).reshape(-1), origin


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
            first = listed(rows, _NAMED)
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
