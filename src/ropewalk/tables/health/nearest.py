"""Equal rows, near duplicates and hubs: the first from all rows, the others from a seeded sample.

Equal rows are found by digests of all rows and confirmed number by number. Tokens whose rows are
equal cannot be told apart by a model; rows that were initialised together and never trained are
often equal.

k-occurrence N_k(x) is how often row x is among the k nearest of the others; in many dimensions a
few rows, the hubs, are near to everything (Radovanovic et al., JMLR 11, 2010). Here near is by
cosine. The names of the figures are those of Feldbauer & Flexer (Knowl. Inf. Syst. 59, 2019).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.short import short
from ropewalk.tables.health.scan import (
    Named,
    Ranked,
    RowStretch,
    Scan,
    quantiles,
    ranges,
    tile_rows,
)
from ropewalk.tables.search import Neighbours, neighbours

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

NEIGHBOURS = 10
"""k of N_k, or all other rows where there are fewer."""
HUB_SIZE = 2.0
"""A hub is a row with N_k of at least HUB_SIZE times k."""
NEAR = 0.99
"""Cosine from which two rows are called near duplicates."""


@short
@dataclass(frozen=True, slots=True)
class NearPair:
    """A sampled row and its nearest other row, with their cosine."""

    row: int
    label: str
    other: int
    other_label: str
    cosine: float


@short
@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """The nearest other row of each of `queries` sampled rows, among `ranked` rows.

    `threshold` is NEAR and `near` how many sampled rows have a neighbour from there on that is not
    the same bits. `quantiles` are (share, cosine to the nearest). `pairs` are the nearest, equal
    rows left out.
    """

    queries: int
    ranked: int
    threshold: float
    near: int
    quantiles: tuple[tuple[float, float], ...]
    pairs: tuple[NearPair, ...]


@short
@dataclass(frozen=True, slots=True)
class Occurrences:
    """How evenly `rows` rows are neighbours of each other, from N_k of all of them.

    `skewness` is the third standardised moment of N_k, None where all are equal. `antihubs` is
    the share of rows with N_k = 0, `hubs` of those with N_k >= HUB_SIZE k, `hub_share` the part
    of all neighbour places that hubs take. `robin_hood` is the part of places that would have to
    move for all N_k to be k: sum |N_k - k| / (2 k rows).
    """

    rows: int
    k: int
    skewness: float | None
    antihubs: float
    hubs: float
    hub_share: float
    robin_hood: float


@short
@dataclass(frozen=True, slots=True)
class Hubness:
    """Hubs of a table, from a sample.

    `sampled` is the graph of the sampled rows among themselves, exact for them; more rows make
    more of a hub. `table_skewness` estimates the skewness of N_k over all `ranked` rows, each of
    `queries` sampled rows having named its k nearest among all (see `thinned_skewness`).
    `busiest` are the rows named by most queries, scored by the share of queries that named them;
    each of them would be named by k / ranked of the queries if all were alike.
    """

    queries: int
    ranked: int
    k: int
    table_skewness: float | None
    sampled: Occurrences | None
    busiest: tuple[Ranked, ...]


@short
@dataclass(frozen=True, slots=True)
class NearestRows:
    """What the nearest rows of a sample tell."""

    duplicates: NearDuplicates
    hubness: Hubness


def draw(counted: Tensor, size: int, seed: int) -> Tensor:
    """`size` of the rows `counted` (rows,) bool, or all where there are fewer; ascending ids."""
    import torch

    rows = counted.nonzero().flatten()
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    drawn: Tensor = rows[order[:size]].sort().values
    return drawn


def nearest_of(
    found: Scan, counted: Tensor, drawn: Tensor, vectors: Tensor, top: int
) -> NearestRows | None:
    """Near duplicates and hubs from the rows `drawn` (q,), whose numbers are `vectors` (q, width).

    `counted` (rows,) bool are the rows that may be neighbours. None where there is no other row.
    """
    others = int(counted.sum()) - 1
    if others < 1:
        return None
    k = min(NEIGHBOURS, others)
    ids = drawn.tolist()
    own = [[row] for row in ids]
    near = neighbours(found.table, vectors, k, exclude=own, among=counted)
    named = _named_times(near.ids, found.table.rows)[counted]
    # A sample of all rows is the table's own graph.
    whole = len(ids) == others + 1
    graph = occurrences(named, k) if whole else occurrences_among(vectors, k)
    hubness = Hubness(
        len(ids),
        others + 1,
        k,
        thinned_skewness(named, len(ids)),
        graph,
        _busiest(found, near.ids, len(ids), top),
    )
    return NearestRows(_duplicates(found, ids, near, top), hubness)


def occurrences_among(vectors: Tensor, k: int) -> Occurrences | None:
    """N_k of rows (n, width) among themselves; `k` is less where there are fewer others.

    None of a single row.
    """
    k = min(k, len(vectors) - 1)
    if k < 1:
        return None
    near = neighbours(vectors, vectors, k, exclude=[[at] for at in range(len(vectors))])
    return occurrences(_named_times(near.ids, len(vectors)), k)


def occurrences(counts: Tensor, k: int) -> Occurrences:
    """The figures of N_k (n,), whose sum is n k."""
    import torch

    wide = counts.double()
    hubs = wide >= HUB_SIZE * k
    moved = wide - wide.mean()
    variance = float(moved.square().mean())
    return Occurrences(
        len(counts),
        k,
        float(moved.pow(3).mean()) / variance**1.5 if variance else None,
        float((counts == 0).double().mean()),
        float(hubs.double().mean()),
        float(torch.where(hubs, wide, 0.0).sum() / wide.sum()),
        float((wide - k).abs().sum() / (2 * wide.sum())),
    )


def thinned_skewness(counts: Tensor, queries: int) -> float | None:
    """The skewness of N_k over all n rows, from how often `queries` of them named each: (n,).

    Of the N_k rows that would name a row, a sample without replacement holds a hypergeometric
    number, whose r-th factorial moment is that of N_k times (queries)_r / (n)_r, where (n)_r is
    n (n - 1) ... (n - r + 1). Dividing by that leaves the moments of N_k without bias; the
    skewness is made of them. None for fewer than three queries, or without spread. Exact where
    all rows are queries.
    """
    rows, wide = len(counts), counts.double()
    if queries < 3:
        return None
    falling, factor = wide.clone(), rows / queries
    factorial = [float(falling.mean()) * factor]
    for step in (1, 2):
        falling *= wide - step
        factor *= (rows - step) / (queries - step)
        factorial.append(float(falling.mean()) * factor)
    mean, second, third = factorial
    about_zero = (second + mean, third + 3 * second + mean)
    variance = about_zero[0] - mean**2
    if variance <= 1e-9 * mean**2:
        return None
    return float((about_zero[1] - 3 * mean * about_zero[0] + 2 * mean**3) / variance**1.5)


def _named_times(ids: Tensor, rows: int) -> Tensor:
    """How often each of `rows` rows is among the neighbours `ids`, (rows,) int64."""
    import torch

    return torch.bincount(ids.flatten(), minlength=rows)


def _busiest(found: Scan, ids: Tensor, queries: int, top: int) -> tuple[Ranked, ...]:
    import torch

    times = _named_times(ids, found.table.rows)
    # Stable, so that rows named equally often stay in their order.
    order = torch.argsort(times, descending=True, stable=True)[:top]
    order = order[times[order] > 0]
    return found.ranked(order.tolist(), (times[order] / queries).tolist())


def _duplicates(found: Scan, ids: list[int], near: Neighbours, top: int) -> NearDuplicates:
    label = found.table.label
    pairs = [
        NearPair(row, label(row), other, label(other), cosine)
        for row, other, cosine in zip(
            ids, near.ids[:, 0].tolist(), near.scores[:, 0].tolist(), strict=True
        )
        if found.digests[row] != found.digests[other]
    ]
    pairs.sort(key=lambda pair: (-pair.cosine, pair.row))
    return NearDuplicates(
        len(ids),
        near.ranked,
        NEAR,
        sum(pair.cosine >= NEAR for pair in pairs),
        quantiles(near.scores[:, 0]),
        tuple(pairs[:top]),
    )


@short
@dataclass(frozen=True, slots=True)
class Duplicates:
    """Groups of rows with the same bits, the largest first, then by their first row.

    `groups` and `rows` count all of them, `largest` shows some. Zero rows and rows with NaN or
    infinity have answers of their own and are in no group. Quantised rows are compared as they
    are handed out, in fp32.
    """

    groups: int
    rows: int
    largest: tuple[RowStretch, ...]


def duplicates_of(found: Scan, top: int, named: int = 6) -> Duplicates:
    """All groups of equal rows, the `top` largest shown with up to `named` of their rows."""
    by_digest: defaultdict[bytes, list[int]] = defaultdict(list)
    for row in (found.finite & ~found.zero).nonzero().flatten().tolist():
        by_digest[found.digests[row]].append(row)
    groups = [
        group
        for rows in by_digest.values()
        if len(rows) > 1
        for group in _confirmed(found.table, rows)
    ]
    groups.sort(key=lambda rows: (-len(rows), rows[0]))
    shown = tuple(RowStretch(len(g), ranges(g), _names(found, g, named)) for g in groups[:top])
    return Duplicates(len(groups), sum(map(len, groups)), shown)


def _names(found: Scan, rows: list[int], named: int) -> tuple[Named, ...]:
    return found.named(rows[:named])


def _confirmed(table: EmbeddingTable, rows: list[int]) -> Iterator[list[int]]:
    """Rows of one digest, apart where their bits differ after all."""
    import torch

    size = tile_rows(table)
    while len(rows) > 1:
        first = table[rows[0]].view(torch.uint8)
        same, other = [rows[0]], []
        for start in range(1, len(rows), size):
            part = rows[start : start + size]
            equal = (table[part].view(torch.uint8) == first).all(1).tolist()
            same += [row for row, is_same in zip(part, equal, strict=True) if is_same]
            other += [row for row, is_same in zip(part, equal, strict=True) if not is_same]
        if len(same) > 1:
            yield same
        rows = other
