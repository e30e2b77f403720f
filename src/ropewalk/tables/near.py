"""The rows of a table nearest to a vector: exact, by cosine, in one pass over the table.

The pass is made in float32 over the rows as they are stored. Every row that may be among the
nearest by what float32 can tell is then scored again in double precision, so that scores, their
order and ties are the same on every path and every machine. Order: higher score first, and of
equal scores the lower id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ropewalk.errors import UsageError
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
"""Squares of rows of which float32 can tell the cosine."""


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The rows nearest to each of q queries, best first.

    `ids` (q, k) int64 and `scores` (q, k) float64. `zero` and `not_finite` are the rows that have
    no direction, all zeros or holding NaN or infinity; none of them is ever a neighbour. `ranked`
    counts the rows that were compared.
    """

    ids: Tensor
    scores: Tensor
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]
    ranked: int

    def of(self, query: int) -> list[tuple[int, float]]:
        """The neighbours of one query as (id, score), best first."""
        return list(zip(self.ids[query].tolist(), self.scores[query].tolist(), strict=True))


def neighbours(
    table: EmbeddingTable | Tensor,
    queries: Tensor,
    k: int,
    *,
    exclude: Sequence[Sequence[int]] = (),
    among: Tensor | None = None,
) -> Neighbours:
    """The `k` rows of `table` nearest by cosine to each query.

    `table` is an opened table, or its rows (rows, width) of any floating dtype; `queries`
    (q, width), or one (width,), need not be of unit length. `exclude` holds the ids that are left
    out for each query; `among` (rows,) bool says which rows are compared at all. Memory holds a
    stretch of the table at a time, and of plain floats in a file its own pages.

    Raises UsageError for a `k` below 1 or above the rows that can be compared, and for a query
    without direction, RowError for an id in `exclude` that is no row.
    """
    import torch

    rows, width = tuple(table.shape)
    units = unit_rows(queries.reshape(-1, queries.shape[-1]) if queries.dim() == 1 else queries)
    _check(units, rows, width, k, exclude, among)
    left_out = [check_rows(ids, rows, "the table") for ids in exclude] or [[]] * len(units)
    if not len(units):
        nothing = torch.empty(0, k)
        return Neighbours(nothing.long(), nothing.double(), (), (), rows)
    searches = [
        _Search(units[i : i + _QUERIES_AT_ONCE], k, left_out[i : i + _QUERIES_AT_ONCE], among)
        for i in range(0, len(units), _QUERIES_AT_ONCE)
    ]
    most = min(len(units), _QUERIES_AT_ONCE)
    for start, stretch in stretches(table, max(1, _SCORES_AT_ONCE // most)):
        for search in searches:
            search.add(start, stretch)
    zero, not_finite = tuple(searches[0].zero), tuple(searches[0].not_finite)
    ranked = (rows if among is None else int(among.sum())) - len(zero) - len(not_finite)
    if any(search.short for search in searches):
        raise UsageError(
            f"{k} neighbours were asked for, and {ranked} rows can be compared, inputs among "
            f"them: {rows} rows, of which {len(zero)} are all zeros and {len(not_finite)} hold "
            "NaN or infinity; ask for fewer"
        )
    found = [search.found() for search in searches]
    ids, scores = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Neighbours(ids, scores, zero, not_finite, ranked)


def unit_rows(vectors: Tensor) -> Tensor:
    """Vectors (n, width) in float64, each of length 1. Raises UsageError for one without direction.

    Scaled by powers of two where squares would over- or underflow.
    """
    scaled, lengths = _with_lengths(vectors)
    for number, length in enumerate(lengths.tolist()):
        if not 0.0 < length < float("inf"):
            holds = "is all zeros" if length == 0.0 else "holds NaN or infinity"
            raise UsageError(f"vector number {number + 1} {holds}, and has no direction to compare")
    return scaled / lengths[:, None]


class _Pairs(NamedTuple):
    """Rows scored in double precision, each for one query: (p,) each."""

    query: Tensor
    id: Tensor
    score: Tensor


class _Search:
    """The nearest rows so far to a few queries; `add` takes the table stretch by stretch."""

    def __init__(
        self, units: Tensor, k: int, left_out: Sequence[list[int]], among: Tensor | None
    ) -> None:
        import torch

        from ropewalk.kernels.near import cosine_error

        self._exact, self._k = units, k
        self._units = units.float()
        self._among = among
        self._left_out = torch.tensor(
            [(q, row) for q, ids in enumerate(left_out) for row in ids], dtype=torch.int64
        ).view(-1, 2)
        # Two scores whose order float32 may have wrong, and what rounding to decimals moves.
        self._margin = 2 * cosine_error(units.shape[1]) + 10.0**-DECIMALS
        none = torch.empty(0, dtype=torch.int64)
        self._best = _Pairs(none, none, none.double())
        self._kth = torch.full((len(units),), -torch.inf, dtype=torch.float64)
        self.zero: list[int] = []
        self.not_finite: list[int] = []

    @property
    def short(self) -> bool:
        """Whether some query has fewer than k neighbours."""
        return len(self._best.id) < self._k * len(self._exact)

    def add(self, start: int, rows: Tensor) -> None:
        """Take the rows (n, width) whose first has the id `start`."""
        from ropewalk.kernels.near import cosines

        scores, squares = cosines(rows, self._units)
        out = None if self._among is None else ~self._among[start : start + len(rows)]
        if out is not None:
            scores.masked_fill_(out, -float("inf"))
        doubtful = self._doubtful(squares, out)
        if len(doubtful):
            scores[:, doubtful] = -float("inf")
            doubtful = self._with_direction(start, rows, doubtful)
        if len(self._left_out):
            query, row = self._left_out.T
            here = (row >= start) & (row < start + len(rows))
            scores[query[here], row[here] - start] = -float("inf")
        self._take(start, rows, *self._candidates(scores))
        if len(doubtful):
            self._take_doubtful(start, rows, doubtful)

    def found(self) -> tuple[Tensor, Tensor]:
        """Ids and scores, (q, k) each."""
        return self._best.id.view(-1, self._k), self._best.score.view(-1, self._k)

    def _doubtful(self, squares: Tensor, out: Tensor | None) -> Tensor:
        """The rows of whose cosine float32 tells nothing by their squares (n,), out or not."""
        low, high = _SAFE
        least, most = squares.aminmax()  # NaN if any is
        if least > low and most < high:
            return squares.new_empty(0).long()
        unsure = ~((squares > low) & (squares < high))
        return (unsure if out is None else unsure & ~out).nonzero()[:, 0]

    def _candidates(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Query and row of every score (q, n) that may be among the k best by float32.

        The k-th largest of the maxima of groups of rows is at most the k-th best score, and few
        rows are as good; groups without such a maximum need no second look.
        """
        import torch

        count = scores.shape[1]
        groups = count // _GROUP
        if groups < 2 * self._k:
            bound = scores.topk(self._k, dim=1).values[:, -1] if count >= self._k else None
            return _at_least(scores, self._cut(bound))
        # Rows of a group lie apart, which is the quick way to reduce.
        grouped = scores[:, : groups * _GROUP].unflatten(1, (_GROUP, groups))
        most = grouped.amax(1)
        cut = self._cut(most.topk(self._k, dim=1).values[:, -1])
        query, group = _at_least(most, cut)
        found, within = _at_least(grouped[query, :, group], cut[query])
        row = within * groups + group[found]
        if count == groups * _GROUP:
            return query[found], row
        rest, last = _at_least(scores[:, groups * _GROUP :], cut)
        return torch.cat([query[found], rest]), torch.cat([row, last + groups * _GROUP])

    def _cut(self, bound: Tensor | None) -> Tensor:
        """The float32 score (q,) below which no row is among the k best, whose k-th is `bound`."""
        import torch

        known = self._kth if bound is None else torch.maximum(self._kth, bound.double())
        # Rounded down, for float32 is what it is compared with.
        cut = (known - self._margin).float()
        # Never -inf, where rows are that are left out.
        return torch.nextafter(cut, cut.new_tensor(-torch.inf)).clamp(min=-2.0)

    def _take_doubtful(self, start: int, rows: Tensor, doubtful: Tensor) -> None:
        """Take rows of which float32 tells nothing, for every query that they are not kept from."""
        import torch

        grid = torch.cartesian_prod(torch.arange(len(self._exact)), doubtful)
        size = int(self._among.numel()) if self._among is not None else 1 << 40
        kept = ~torch.isin(
            grid[:, 0] * size + grid[:, 1] + start,
            self._left_out[:, 0] * size + self._left_out[:, 1],
        )
        self._take(start, rows, *grid[kept].T)

    def _take(self, start: int, rows: Tensor, query: Tensor, row: Tensor) -> None:
        """Score pairs in double precision, and keep the k best of each query."""
        import numpy as np
        import torch

        step = max(1, _PAIRS_AT_ONCE // rows.shape[1])
        scored = [
            _cosines(rows[row[i : i + step]], self._exact[query[i : i + step]])
            for i in range(0, len(row), step)
        ]
        new = _Pairs(query, row + start, torch.cat([*scored, self._best.score[:0]]))
        every = _Pairs(*(torch.cat(two) for two in zip(self._best, new, strict=True)))
        asked, ids, scores = (part.numpy() for part in every)
        order = np.lexsort((ids, -scores, asked))
        place = np.arange(len(order)) - np.searchsorted(asked[order], asked[order])
        kept = torch.from_numpy(order[place < self._k])
        self._best = _Pairs(*(part[kept] for part in every))
        last = torch.from_numpy(order[place == self._k - 1])
        self._kth[every.query[last]] = every.score[last]

    def _with_direction(self, start: int, rows: Tensor, doubtful: Tensor) -> Tensor:
        """Those rows that have a direction all the same; the others are noted."""
        import torch

        taken = rows[doubtful].double()
        finite = torch.isfinite(taken).all(dim=1)
        zero = (taken == 0).all(dim=1)
        self.not_finite += (doubtful[~finite] + start).tolist()
        self.zero += (doubtful[zero] + start).tolist()
        return doubtful[finite & ~zero]


def _at_least(scores: Tensor, cut: Tensor) -> tuple[Tensor, Tensor]:
    """Where scores (q, n) reach `cut` (q,): query and place."""
    query, place = (scores >= cut[:, None]).nonzero().T
    return query, place


def stretches(table: EmbeddingTable | Tensor, most: int) -> Iterator[tuple[int, Tensor]]:
    """The table from end to end: the id of a first row, and up to `most` rows, mapped where
    the file holds plain floats.
    """
    import torch

    rows = table if isinstance(table, torch.Tensor) else mapped(table)
    if rows is not None:
        for start in range(0, len(rows), most):
            yield start, rows[start : start + most]
    elif not isinstance(table, torch.Tensor):
        yield from table.tiles(min(most, 8192))


def mapped(table: EmbeddingTable) -> Tensor | None:
    """All rows of a table of plain floats as its file's own pages; None for any other table."""
    plain = table.size == table.rows * table.width * table.dtype.itemsize
    return table.whole() if plain and not table.transforms else None


def _cosines(rows: Tensor, units: Tensor) -> Tensor:
    """Cosines (p,) of rows with unit vectors, (p, width) each, in double precision, rounded.

    A row's own sum is made in one order wherever it lies, so that equal rows get equal scores.
    """
    import torch

    scaled, lengths = _with_lengths(rows)
    # Adding 0 makes -0.0 be 0.0.
    return torch.round((scaled * units).sum(1) / lengths, decimals=DECIMALS) + 0.0


def _with_lengths(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (n, width) in float64, and their lengths (n,).

    Where a square is too large or small for float64, every row is first multiplied by the power
    of two that brings its peak near 1: an exact product, which changes no direction.
    """
    import numpy as np
    import torch

    wide = rows.double()
    lengths = wide.square().sum(1).sqrt()
    if not wide.numel():
        return wide, lengths
    least, most = lengths.aminmax()
    if least > 1e-140 and most < 1e140:
        return wide, lengths
    peak = wide.abs().amax(dim=1, keepdim=True)
    exponent = torch.frexp(torch.where(torch.isfinite(peak), peak, 1.0)).exponent
    # numpy's is exact; torch takes a power of float32, which holds fewer.
    wide = wide * torch.from_numpy(np.ldexp(1.0, -exponent.clamp(min=-1000).numpy()))
    return wide, wide.square().sum(1).sqrt()


def _check(
    units: Tensor,
    rows: int,
    width: int,
    k: int,
    exclude: Sequence[Sequence[int]],
    among: Tensor | None,
) -> None:
    """Refuse sizes that do not fit one another."""
    check_k(k, rows)
    if units.dim() != 2 or units.shape[1] != width:
        raise UsageError(
            f"queries are {tuple(units.shape)}; for this table they are (queries, {width})"
        )
    if exclude and len(exclude) != len(units):
        raise UsageError(f"exclude has ids for {len(exclude)} queries, and there are {len(units)}")
    if among is not None and (among.shape != (rows,) or str(among.dtype) != "torch.bool"):
        raise UsageError(
            f"among is {tuple(among.shape)} of {among.dtype}; it says for each of {rows} rows "
            "whether it is compared, as bool"
        )


def check_k(k: int, rows: int) -> None:
    """Refuse a number of neighbours that a table of `rows` cannot have. Raises UsageError."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"k is {k!r}; ask for 1 or more neighbours")
    if k > rows:
        raise UsageError(f"k is {k}, and the table has {rows} rows; ask for at most {rows}")
