"""The rows of a table nearest to a vector: exact, by cosine, in one pass over the table.

The pass is made in float32 over the rows as they are stored. Every row that may be among the
nearest, as far as float32 can say, is then scored again in double precision, so that scores, their
order and ties are the same on every path and every machine. Order: higher score first, and of
equal scores the lower id. `search` takes and returns arrays, `neighbours` tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import Array, as_array, as_tensor, doubles
from ropewalk.kernels.cosines import cosine_error, cosines
from ropewalk.short import short
from ropewalk.tables.stored import check_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

DECIMALS = 9
"""Scores are rounded to so many, so that rows that point the same way tie whatever their length:
double precision tells them apart by their last bits."""

_SCORES_AT_ONCE = 1 << 24
"""float32 scores held at a time, 64 MiB: queries times rows of a stretch of the table."""
_QUERIES_AT_ONCE = 64
_PAIRS_AT_ONCE = 1 << 21
"""Numbers of rows scored again at a time, in double precision."""
_GROUP = 64
"""Rows whose best score is looked at before their own."""
_SAFE = (2.0**-100, 2.0**126)
"""Squares of rows whose cosine float32 can compute."""


@short
@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """The rows nearest to each of q queries, best first.

    `ids` (q, k) int64 and `scores` (q, k) float64. `zero` and `not_finite` are the rows that have
    no direction, all zeros or holding NaN or infinity; none of them is ever a neighbour. `ranked`
    counts the rows that were compared.
    """

    ids: Array
    scores: Array
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]
    ranked: int

    def of(self, query: int) -> list[tuple[int, float]]:
        """The neighbours of one query as (id, score), best first."""
        return list(zip(self.ids[query].tolist(), self.scores[query].tolist(), strict=True))


def search(
    table: EmbeddingTable | Array,
    queries: Array,
    k: int,
    *,
    exclude: Sequence[Sequence[int]] = (),
    among: Array | None = None,
) -> FoundRows:
    """The `k` rows of `table` nearest by cosine to each query.

    `table` is an opened table, or its rows (rows, width) of any floating dtype; `queries`
    (q, width), or one (width,), need not be of unit length. `exclude` holds the ids that are left
    out for each query; `among` (rows,) bool says which rows are compared at all. Memory holds a
    stretch of the table at a time, and of plain floats in a file its own pages.

    Raises UsageError for a `k` below 1 or above the rows that can be compared, and for a query
    without direction, RowError for an id in `exclude` that is no row.
    """
    rows, width = table.shape
    units = unit_rows(np.atleast_2d(queries))
    _check(units, rows, width, k, exclude, among)
    left_out = [check_rows(ids, rows, "the table") for ids in exclude] or [[]] * len(units)
    if not len(units):
        return FoundRows(np.empty((0, k), np.int64), np.empty((0, k)), (), (), rows)
    searches = [
        _Search(units[i : i + _QUERIES_AT_ONCE], k, left_out[i : i + _QUERIES_AT_ONCE], among)
        for i in range(0, len(units), _QUERIES_AT_ONCE)
    ]
    most = min(len(units), _QUERIES_AT_ONCE)
    for start, stretch in stretches(table, max(1, _SCORES_AT_ONCE // most)):
        for one in searches:
            one.add(start, stretch)
    zero, not_finite = tuple(searches[0].zero), tuple(searches[0].not_finite)
    ranked = (rows if among is None else int(among.sum())) - len(zero) - len(not_finite)
    if any(one.short for one in searches):
        raise UsageError(
            f"{k} neighbours were asked for, and {ranked} rows can be compared, inputs among "
            f"them: {rows} rows, of which {len(zero)} are all zeros and {len(not_finite)} hold "
            "NaN or infinity; ask for fewer"
        )
    found = [one.found() for one in searches]
    ids, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return FoundRows(ids, scores, zero, not_finite, ranked)


def unit_rows(vectors: Array) -> Array:
    """Vectors (n, width) in float64, each of length 1. Raises UsageError for one without direction.

    Scaled by powers of two where squares would over- or underflow.
    """
    scaled, lengths = _with_lengths(vectors)
    for number, length in enumerate(lengths.tolist()):
        if not 0.0 < length < float("inf"):
            holds = "is all zeros" if length == 0.0 else "holds NaN or infinity"
            raise UsageError(f"vector number {number + 1} {holds}, and has no direction to compare")
    units: Array = scaled / lengths[:, None]
    return units


class _Pairs(NamedTuple):
    """Rows scored in double precision, each for one query: (p,) each."""

    query: Array
    id: Array
    score: Array


class _Search:
    """The nearest rows so far to a few queries; `add` takes the table stretch by stretch."""

    def __init__(
        self, units: Array, k: int, left_out: Sequence[list[int]], among: Array | None
    ) -> None:
        self._exact, self._k = units, k
        self._units = units.astype(np.float32)
        self._among = among
        self._left_out = np.array(
            [(q, row) for q, ids in enumerate(left_out) for row in ids], np.int64
        ).reshape(-1, 2)
        # Two scores whose order float32 may have wrong, and what rounding to decimals moves.
        self._margin = 2 * cosine_error(units.shape[1]) + 10.0**-DECIMALS
        none = np.empty(0, np.int64)
        self._best = _Pairs(none, none, np.empty(0))
        self._kth = np.full(len(units), -np.inf)
        self.zero: list[int] = []
        self.not_finite: list[int] = []

    @property
    def short(self) -> bool:
        """Whether some query has fewer than k neighbours."""
        return len(self._best.id) < self._k * len(self._exact)

    def add(self, start: int, rows: Array) -> None:
        """Take the rows (n, width) whose first has the id `start`."""
        scores, squares = cosines(rows, self._units)
        out = None if self._among is None else ~self._among[start : start + len(rows)]
        if out is not None:
            scores[:, out] = -np.inf
        doubtful = _doubtful(squares, out)
        if len(doubtful):
            scores[:, doubtful] = -np.inf
            doubtful = self._with_direction(start, rows, doubtful)
        if len(self._left_out):
            query, row = self._left_out.T
            here = (row >= start) & (row < start + len(rows))
            scores[query[here], row[here] - start] = -np.inf
        self._take(start, rows, *self._candidates(scores))
        if len(doubtful):
            self._take_doubtful(start, rows, doubtful)

    def found(self) -> tuple[Array, Array]:
        """Ids and scores, (q, k) each."""
        return self._best.id.reshape(-1, self._k), self._best.score.reshape(-1, self._k)

    def _candidates(self, scores: Array) -> tuple[Array, Array]:
        """Query and row of every score (q, n) that may be among the k best by float32.

        The k-th largest of the maxima of groups of rows is at most the k-th best score, and few
        rows are as good; groups without such a maximum need no second look.
        """
        count = scores.shape[1]
        groups = count // _GROUP
        if groups < 2 * self._k:
            bound = _largest(scores, self._k) if count >= self._k else None
            return _at_least(scores, self._cut(bound))
        # Rows of a group lie apart, which is the quick way to reduce.
        grouped = scores[:, : groups * _GROUP].reshape(len(scores), _GROUP, groups)
        most = grouped.max(axis=1)
        cut = self._cut(_largest(most, self._k))
        query, group = _at_least(most, cut)
        found, within = _at_least(grouped[query, :, group], cut[query])
        row = within * groups + group[found]
        if count == groups * _GROUP:
            return query[found], row
        rest, last = _at_least(scores[:, groups * _GROUP :], cut)
        return np.concatenate([query[found], rest]), np.concatenate([row, last + groups * _GROUP])

    def _cut(self, bound: Array | None) -> Array:
        """The float32 score (q,) below which no row is among the k best, whose k-th is `bound`."""
        known = self._kth if bound is None else np.maximum(self._kth, bound)
        # Rounded down, for float32 is what it is compared with.
        cut = (known - self._margin).astype(np.float32)
        # Never -inf, where rows are that are left out.
        return np.maximum(np.nextafter(cut, np.float32(-np.inf)), np.float32(-2.0))

    def _take_doubtful(self, start: int, rows: Array, doubtful: Array) -> None:
        """Take rows whose cosine float32 cannot compute, for each query that may have them."""
        queries = np.arange(len(self._exact))
        query, row = np.repeat(queries, len(doubtful)), np.tile(doubtful, len(queries))
        size = len(self._among) if self._among is not None else 1 << 40
        kept = ~np.isin(
            query * size + row + start, self._left_out[:, 0] * size + self._left_out[:, 1]
        )
        self._take(start, rows, query[kept], row[kept])

    def _take(self, start: int, rows: Array, query: Array, row: Array) -> None:
        """Score pairs in double precision, and keep the k best of each query."""
        step = max(1, _PAIRS_AT_ONCE // rows.shape[1])
        scored = [
            _cosines(rows[row[i : i + step]], self._exact[query[i : i + step]])
            for i in range(0, len(row), step)
        ]
        new = _Pairs(query, row + start, np.concatenate([*scored, self._best.score[:0]]))
        every = _Pairs(*(np.concatenate(two) for two in zip(self._best, new, strict=True)))
        order = np.lexsort((every.id, -every.score, every.query))
        asked = every.query[order]
        place = np.arange(len(order)) - np.searchsorted(asked, asked)
        self._best = _Pairs(*(part[order[place < self._k]] for part in every))
        last = order[place == self._k - 1]
        self._kth[every.query[last]] = every.score[last]

    def _with_direction(self, start: int, rows: Array, doubtful: Array) -> Array:
        """Those rows that have a direction all the same; the others are noted."""
        taken = doubles(rows[doubtful])
        finite = np.isfinite(taken).all(axis=1)
        zero = (taken == 0).all(axis=1)
        self.not_finite += (doubtful[~finite] + start).tolist()
        self.zero += (doubtful[zero] + start).tolist()
        kept: Array = doubtful[finite & ~zero]
        return kept


def _doubtful(squares: Array, out: Array | None) -> Array:
    """The rows whose cosine float32 cannot compute, by their squares (n,), out or not."""
    low, high = _SAFE
    # A minimum is NaN if any is.
    if len(squares) and squares.min() > low and squares.max() < high:
        return np.empty(0, np.int64)
    unsure = ~((squares > low) & (squares < high))
    return np.flatnonzero(unsure if out is None else unsure & ~out)


def _largest(scores: Array, k: int) -> Array:
    """The k-th largest (q,) of scores (q, n)."""
    largest: Array = np.partition(scores, scores.shape[1] - k, axis=1)[:, -k]
    return largest


def _at_least(scores: Array, cut: Array) -> tuple[Array, Array]:
    """Where scores (q, n) reach `cut` (q,): query and place."""
    query, place = np.nonzero(scores >= cut[:, None])
    return query, place


def stretches(table: EmbeddingTable | Array, most: int) -> Iterator[tuple[int, Array]]:
    """The table from end to end: the id of a first row, and up to `most` rows, mapped where
    the file holds plain floats.
    """
    rows = table if isinstance(table, np.ndarray) else table.pages()
    if rows is not None:
        for start in range(0, len(rows), most):
            yield start, rows[start : start + most]
    elif not isinstance(table, np.ndarray):
        yield from table.array_tiles(min(most, 8192))


def _cosines(rows: Array, units: Array) -> Array:
    """Cosines (p,) of rows with unit vectors, (p, width) each, in double precision, rounded.

    A row's own sum is made in one order wherever it lies, so that equal rows get equal scores.
    """
    scaled, lengths = _with_lengths(rows)
    scores: Array = np.round((scaled * units).sum(axis=1) / lengths, DECIMALS)
    # Adding 0 makes -0.0 be 0.0.
    return scores + 0.0


def _with_lengths(rows: Array) -> tuple[Array, Array]:
    """Rows (n, width) in float64, and their lengths (n,).

    Where a square is too large or small for float64, every row is first multiplied by the power
    of two that brings its peak near 1: an exact product, which changes no direction.
    """
    wide = doubles(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.square(wide).sum(axis=1))
        if not wide.size or (lengths.min() > 1e-140 and lengths.max() < 1e140):
            return wide, lengths
        peak = np.abs(wide).max(axis=1, keepdims=True)
        exponent = np.frexp(np.where(np.isfinite(peak), peak, 1.0))[1]
        wide = wide * np.ldexp(1.0, -np.maximum(exponent, -1000))
        return wide, np.sqrt(np.square(wide).sum(axis=1))


def _check(
    units: Array,
    rows: int,
    width: int,
    k: int,
    exclude: Sequence[Sequence[int]],
    among: Array | None,
) -> None:
    """Refuse sizes that do not fit one another."""
    check_k(k, rows)
    if units.ndim != 2 or units.shape[1] != width:
        raise UsageError(f"queries are {units.shape}; for this table they are (queries, {width})")
    if exclude and len(exclude) != len(units):
        raise UsageError(f"exclude has ids for {len(exclude)} queries, and there are {len(units)}")
    if among is not None and (among.shape != (rows,) or among.dtype != np.bool_):
        raise UsageError(
            f"among is {among.shape} of {among.dtype}; it says for each of {rows} rows "
            "whether it is compared, as bool"
        )


def check_k(k: int, rows: int) -> None:
    """Refuse a number of neighbours that a table of `rows` cannot have. Raises UsageError."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"k is {k!r}; ask for 1 or more neighbours")
    if k > rows:
        raise UsageError(f"k is {k}, and the table has {rows} rows; ask for at most {rows}")


@short
@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """As `Found`, `ids` (q, k) int64 and `scores` (q, k) float64 as tensors."""

    ids: Tensor
    scores: Tensor
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]
    ranked: int


def neighbours(
    table: EmbeddingTable | Tensor,
    queries: Tensor,
    k: int,
    *,
    exclude: Sequence[Sequence[int]] = (),
    among: Tensor | None = None,
) -> Neighbours:
    """As `search`, of tensors: `table` is opened, or its rows (rows, width) on the CPU."""
    import torch

    found = search(
        as_array(table) if isinstance(table, torch.Tensor) else table,
        as_array(queries),
        k,
        exclude=exclude,
        among=None if among is None else as_array(among),
    )
    ids, scores = as_tensor(found.ids), as_tensor(found.scores)
    return Neighbours(ids, scores, found.zero, found.not_finite, found.ranked)
