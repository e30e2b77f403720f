"""Rows of a table in k clusters of like direction, with what is central to each.

k-means (Lloyd 1982) with k-means++ starts (Arthur and Vassilvitskii 2007), as scikit-learn
computes it, on rows brought to length 1: then the squared distance of two rows is 2 - 2 cosine.
The centres are fitted on a seeded sample, and every row goes to the nearest one, tile by tile.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import MissingPartError, UsageError
from ropewalk.short import short
from ropewalk.tables.principal import finite_rows
from ropewalk.tables.sample import RowSample, choose_rows, generator

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

FITTED = 20_000
"""Rows that centres are fitted on at most, unless more are asked for."""
JUDGED = 2_000
"""Rows that the silhouette is taken of at most: it compares each with each."""
RESTARTS = 4
CENTRAL = 8
_DECIMALS = 6


@short
@dataclass(frozen=True, slots=True)
class Cluster:
    """`size` rows; `central` are those nearest to the centre as (row, cosine), nearest first.

    `cosine` is the mean cosine of the rows with their centre: 1 for rows that all point alike.
    """

    size: int
    central: tuple[tuple[int, float], ...]
    cosine: float


@short
@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Largest first. `labels` (rows of the table,) int64: the place of each row's cluster.

    -1 is for rows that were left out: `zero` and `not_finite` rows have no direction, and rows
    without a token were not asked for. `fitted` rows made the centres. `inertia` is the mean
    squared distance of the rows from their centres, from 0 to 1 about. `silhouette` (Rousseeuw
    1987) is of `judged` rows, from -1 to 1; None where there is one cluster.
    """

    clusters: tuple[Cluster, ...]
    labels: Tensor
    chosen: RowSample
    fitted: int
    seed: int
    inertia: float
    silhouette: float | None
    judged: int
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]


def cluster(
    table: EmbeddingTable,
    k: int,
    *,
    seed: int = 0,
    fitted: int = FITTED,
    all_rows: bool = False,
) -> Clusters:
    """The `k` clusters of the table's rows, the same for the same seed.

    Raises UsageError for fewer than one cluster, more than rows that have a direction, or than
    the sample of `fitted` rows; MissingPartError without scikit-learn.
    """
    if k < 1:
        raise UsageError(f"{k} clusters were asked for; ask for 1 or more")
    chosen = choose_rows(table, all_rows=all_rows)
    if k > min(len(chosen), fitted):
        raise UsageError(
            f"{k} clusters were asked for, to be fitted on {min(len(chosen), fitted):,} of "
            f"{len(chosen):,} rows; ask for no more clusters than rows to fit"
        )
    sample = choose_rows(table, fitted, seed=seed, all_rows=all_rows)
    units, _, _ = directed_rows(table[sample.ids.tolist()])
    centres = _fit(units, k, seed)
    assigned = _assign(table, centres, chosen)
    order, clusters = _ranked(assigned, k)
    place = assigned.labels.clone()
    there = place >= 0
    place[there] = order[place[there]]
    silhouette, judged = _silhouette(table, place, len(clusters), seed)
    return Clusters(
        clusters,
        place,
        chosen,
        len(units),
        seed,
        float(assigned.distances[there].mean()),
        silhouette,
        judged,
        assigned.zero,
        assigned.not_finite,
    )


def directed_rows(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Those rows (n, width) that have a direction, at length 1 in fp32, and two masks (n,) bool.

    The masks say which rows are zero, and which hold NaN, infinity or numbers too large.
    """
    import torch

    wide = rows.float()
    finite = finite_rows(wide)
    norms = torch.linalg.vector_norm(wide, dim=1)
    zero = finite & (norms == 0)
    kept = finite & ~zero
    return wide[kept] / norms[kept, None], zero, ~finite


@dataclass(frozen=True, slots=True, eq=False)
class _Assigned:
    """Of every row of the table: its centre, cosine with it, squared distance from it."""

    labels: Tensor
    cosines: Tensor
    distances: Tensor
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]


def _fit(units: Tensor, k: int, seed: int) -> Tensor:
    """Centres (k, width) of unit rows (n, width)."""
    import torch

    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise MissingPartError(
            "clusters need the package scikit-learn, which is not installed; "
            'install it with: pip install "ropewalk[look]"'
        ) from error
    if k > len(units):
        raise UsageError(
            f"{k} clusters were asked for, and {len(units)} rows of the sample have a direction"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            fit = KMeans(k, n_init=RESTARTS, random_state=seed).fit(units.numpy())
        except ConvergenceWarning as error:
            raise UsageError(
                f"{k} clusters were asked for, and the {len(units):,} rows of the sample have "
                "fewer different directions; ask for fewer"
            ) from error
    return torch.from_numpy(fit.cluster_centers_).float()


def _assign(table: EmbeddingTable, centres: Tensor, chosen: RowSample) -> _Assigned:
    import torch

    wanted = torch.zeros(table.rows, dtype=torch.bool)
    wanted[chosen.ids] = True
    labels = torch.full((table.rows,), -1)
    cosines, distances = torch.zeros(table.rows), torch.zeros(table.rows)
    squares = centres.square().sum(1)
    zero: list[int] = []
    not_finite: list[int] = []
    for start, rows in table.tiles():
        ids = wanted[start : start + len(rows)].nonzero().flatten()
        units, is_zero, is_not_finite = directed_rows(rows[ids])
        ids += start
        zero += ids[is_zero].tolist()
        not_finite += ids[is_not_finite].tolist()
        ids = ids[~(is_zero | is_not_finite)]
        products = torch.matmul(units, centres.T)
        # |u - c|^2 = 1 - 2 u.c + |c|^2
        best = (2 * products - squares).max(1)
        labels[ids] = best.indices
        distances[ids] = (1 - best.values).clamp(min=0)
        own = products.gather(1, best.indices[:, None])[:, 0]
        cosines[ids] = own / squares[best.indices].sqrt().clamp(min=1e-20)
    return _Assigned(labels, cosines, distances, tuple(zero), tuple(not_finite))


def _ranked(assigned: _Assigned, k: int) -> tuple[Tensor, tuple[Cluster, ...]]:
    """For each centre its place, and the clusters in their places; largest first."""
    import torch

    found: list[tuple[int, Cluster]] = []
    for number in range(k):
        ids = (assigned.labels == number).nonzero().flatten()
        if not len(ids):
            # A centre that the sample made and no row is nearest to.
            continue
        cosines = assigned.cosines[ids].double().round(decimals=_DECIMALS)
        order = torch.argsort(cosines, descending=True, stable=True)[:CENTRAL]
        central = tuple(zip(ids[order].tolist(), cosines[order].tolist(), strict=True))
        found.append((number, Cluster(len(ids), central, float(cosines.mean()))))
    found.sort(key=lambda pair: (-pair[1].size, pair[1].central[0][0]))
    order = torch.full((k,), -1)
    for place, (number, _) in enumerate(found):
        order[number] = place
    return order, tuple(cluster for _, cluster in found)


def _silhouette(
    table: EmbeddingTable, labels: Tensor, clusters: int, seed: int
) -> tuple[float | None, int]:
    """The mean silhouette of a seeded sample, and of how many rows; None for one cluster."""
    import torch
    from sklearn.metrics import silhouette_score

    there = (labels >= 0).nonzero().flatten()
    drawn = torch.randperm(len(there), generator=generator(seed))[:JUDGED].sort().values
    ids = there[drawn]
    own = labels[ids]
    if clusters < 2 or not 2 <= own.unique().numel() < len(own):
        return None, 0
    units, _, _ = directed_rows(table[ids.tolist()])
    return float(silhouette_score(units.numpy(), own.numpy())), len(ids)
