"""Two tables side by side over the tokens they share: what moved, and how far.

Tokens are paired by the bytes that they add to a text, never by id. A byte token (`<0x41>`) is
shared with a byte token alone. WordPiece has lost its spaces: its `ing` begins a word, which other
vocabularies write with a space before it, and its `##ing` goes on with one. So where one of the
two is WordPiece, its pieces are looked for in that spelling first.

Rows are compared as they are, and after the one orthogonal matrix that brings the first table
closest to the second (Procrustes; Schönemann, Psychometrika 31, 1966), for two trainings may end
in the same table rotated. Where widths differ only relations can be compared: which tokens are a
token's neighbours. Tables are read tile by tile, once for the sums and once more for what is left
after the rotation; no copy of either is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.search import neighbours
from ropewalk.tables.vocabulary import Token, TokenKind, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

TILE = 4096


@short
@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """How far each shared row moved, in the order of the pairs: (n,) fp64 each.

    `distances` are Euclidean. Of pairs without a direction, both are NaN.
    """

    cosines: Tensor
    distances: Tensor
    residual: float
    """Of all rows together: the norm of the differences over that of the second table's rows."""

    def most_turned(self, count: int) -> list[int]:
        """Pairs of the lowest cosines, lowest first; of equal ones the first pair first."""
        return _first(self.cosines, count)

    def furthest(self, count: int) -> list[int]:
        """Pairs of the greatest distances, greatest first."""
        return _first(-self.distances, count)


@short
@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """How many of the `k` neighbours (by cosine, among shared tokens) are the same in both tables.

    `pairs` are the sampled pairs, `shares` (sample,) the share of each, 0 to 1.
    """

    k: int
    pairs: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of all that were sampled."""
        return sum(self.shares) / len(self.shares)

    def lowest(self, count: int) -> list[tuple[int, float]]:
        """Pair and share of those whose neighbours changed most."""
        listed = sorted(zip(self.shares, self.pairs, strict=True))[:count]
        return [(pair, share) for share, pair in listed]


@short
@dataclass(frozen=True, slots=True, eq=False)
class TableComparison:
    """Two tables over their shared tokens.

    `kept` numbers the pairs that have a direction in both; `zero` and `not_finite` the others.
    `ratios` (n,) fp64: norm in the second table over that in the first, NaN for those others.
    `raw` and `aligned` are None where the widths differ, `aligned` also below two pairs.
    `overlap` is None where fewer than two pairs have a direction.
    """

    one: EmbeddingTable
    other: EmbeddingTable
    shared: SharedRows
    kept: tuple[int, ...]
    zero: tuple[int, ...]
    not_finite: tuple[int, ...]
    ratios: Tensor
    raw: Movement | None
    aligned: Movement | None
    overlap: Overlap | None

    def label(self, pair: int) -> str:
        """The token of a pair."""
        return self.one.label(self.shared.rows[pair])


def compare(
    one: EmbeddingTable, other: EmbeddingTable, *, k: int = 10, sample: int = 500, seed: int = 0
) -> TableComparison:
    """Set two tables side by side. `k` neighbours of `sample` tokens, drawn with `seed`, are found.

    Raises UsageError for a `k` or `sample` below 1, a `k` that the shared tokens cannot fill,
    vocabularies that share nothing, and tables of positions.
    """
    if "positions" in (one.role, other.role):
        raise UsageError("tables of positions have no tokens to pair; compare input or output")
    if k < 1 or sample < 1:
        raise UsageError(f"k is {k} and sample {sample}; both are 1 or more")
    shared = shared_tokens(one, other)
    sums = _Sums(one, other, shared)
    if 0 < len(sums.kept) <= k:
        raise UsageError(
            f"k is {k}, and {len(sums.kept)} shared tokens have a direction in both tables; ask "
            f"for at most {len(sums.kept) - 1}"
        )
    return TableComparison(
        one=one,
        other=other,
        shared=shared,
        kept=tuple(sums.kept),
        zero=tuple(sums.zero),
        not_finite=tuple(sums.not_finite),
        ratios=sums.ratios,
        raw=sums.raw,
        aligned=None if sums.cross is None else _aligned(one, other, shared, sums),
        overlap=_overlap(one, other, shared, sums.kept, k, sample, seed) if sums.kept else None,
    )


class _Sums:
    """One pass over both tables: norms, movement as it is, and the cross product of the rows."""

    def __init__(self, one: EmbeddingTable, other: EmbeddingTable, shared: SharedRows) -> None:
        import torch

        count = len(shared)
        self.ratios = torch.full((count,), torch.nan, dtype=torch.float64)
        self.zero: list[int] = []
        self.not_finite: list[int] = []
        self.kept: list[int] = []
        same = one.width == other.width
        moved = _Moved(count)
        self.cross: Tensor | None = None
        if same:
            self.cross = torch.zeros(one.width, one.width, dtype=torch.float64)
        for at, x, y in _tiles(one, other, shared):
            fine = self._sort(at, x, y)
            x, y, at = x[fine], y[fine], at[fine]
            self.ratios[at] = y.norm(dim=1) / x.norm(dim=1)
            if self.cross is not None:
                moved.add(at, x, y)
                self.cross += x.T @ y
        self.raw = moved.done() if same else None

    def _sort(self, at: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Which rows have a direction in both tables; the others are noted."""
        import torch

        finite = torch.isfinite(x).all(dim=1) & torch.isfinite(y).all(dim=1)
        zero = finite & ((x == 0).all(dim=1) | (y == 0).all(dim=1))
        fine: Tensor = finite & ~zero
        self.not_finite += at[~finite].tolist()
        self.zero += at[zero].tolist()
        self.kept += at[fine].tolist()
        return fine


class _Moved:
    """Movement, gathered tile by tile."""

    def __init__(self, count: int) -> None:
        import torch

        self._cosines = torch.full((count,), torch.nan, dtype=torch.float64)
        self._distances = self._cosines.clone()
        self._moved = self._whole = 0.0

    def add(self, at: Tensor, x: Tensor, y: Tensor) -> None:
        squares, others = (x * x).sum(dim=1), (y * y).sum(dim=1)
        # Under one root, so that a row's cosine with itself is 1.0 to the last bit.
        self._cosines[at] = ((x * y).sum(dim=1) / (squares * others).sqrt()).clamp(-1.0, 1.0)
        gaps = (x - y).square().sum(dim=1)
        self._distances[at] = gaps.sqrt()
        self._moved += float(gaps.sum())
        self._whole += float(others.sum())

    def done(self) -> Movement:
        residual = (self._moved / self._whole) ** 0.5 if self._whole else 0.0
        return Movement(self._cosines, self._distances, residual)


def _aligned(
    one: EmbeddingTable, other: EmbeddingTable, shared: SharedRows, sums: _Sums
) -> Movement | None:
    """What is left of the movement after the orthogonal matrix that undoes most of it."""
    import torch

    if sums.cross is None or len(sums.kept) < 2:
        return None
    left, _, right = torch.linalg.svd(sums.cross)
    rotation = left @ right
    kept = torch.zeros(len(shared), dtype=torch.bool)
    kept[sums.kept] = True
    moved = _Moved(len(shared))
    for at, x, y in _tiles(one, other, shared):
        fine = kept[at]
        moved.add(at[fine], x[fine] @ rotation, y[fine])
    return moved.done()


def _overlap(
    one: EmbeddingTable,
    other: EmbeddingTable,
    shared: SharedRows,
    kept: list[int],
    k: int,
    sample: int,
    seed: int,
) -> Overlap:
    import torch

    order = torch.randperm(len(kept), generator=torch.Generator().manual_seed(seed))
    drawn = sorted(kept[i] for i in order[:sample].tolist())
    found = [
        _neighbours(table, rows, kept, drawn, k)
        for table, rows in ((one, shared.rows), (other, shared.others))
    ]
    shares = tuple(len(a & b) / k for a, b in zip(*found, strict=True))
    return Overlap(k, tuple(drawn), shares)


def _neighbours(
    table: EmbeddingTable, rows: tuple[int, ...], kept: list[int], drawn: list[int], k: int
) -> list[set[int]]:
    """For each drawn pair the pairs that are its neighbours in one table."""
    import torch

    among = torch.zeros(table.rows, dtype=torch.bool)
    among[[rows[pair] for pair in kept]] = True
    own = [rows[pair] for pair in drawn]
    found = neighbours(table, table[own], k, exclude=[[row] for row in own], among=among)
    pair_of = {rows[pair]: pair for pair in kept}
    return [{pair_of[row] for row in ids} for ids in found.ids.tolist()]


def _tiles(
    one: EmbeddingTable, other: EmbeddingTable, shared: SharedRows
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Numbers of pairs, their rows in one table, and in the other, in fp64."""
    import torch

    for start in range(0, len(shared), TILE):
        stop = min(start + TILE, len(shared))
        x = one[list(shared.rows[start:stop])].double()
        y = other[list(shared.others[start:stop])].double()
        yield torch.arange(start, stop), x, y


def _first(values: Tensor, count: int) -> list[int]:
    """The places of the `count` least values, NaN left out; of equal ones the first first."""
    import torch

    known = (~torch.isnan(values)).nonzero()[:, 0]
    order = torch.argsort(values[known], stable=True)[:count]
    return [int(i) for i in known[order]]


Key = tuple[bytes, bool]
"""A token's bytes, and whether it is a byte token."""


@short
@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows of one table and the rows of the other that stand for the same token.

    `rows` and `others` in step, ascending by `rows`. `tokens` and `other_tokens` count the tokens
    with a row; `several` those left out because their bytes have several rows that no piece
    tells apart. `rule` says how they were paired.
    """

    rows: tuple[int, ...]
    others: tuple[int, ...]
    tokens: int
    other_tokens: int
    several: int
    rule: str

    def __len__(self) -> int:
        """How many tokens are shared."""
        return len(self.rows)


def shared_tokens(one: EmbeddingTable, other: EmbeddingTable) -> SharedRows:
    """The rows of two tables that stand for the same token; rows without a token for none.

    Tables that both have no vocabulary are paired by row number. Raises UsageError where only
    one has a vocabulary, and where nothing is shared.
    """
    mine, theirs = one.vocabulary, other.vocabulary
    if mine is None and theirs is None:
        rows = tuple(range(min(one.rows, other.rows)))
        rule = "by row number, for neither has a vocabulary"
        return SharedRows(rows, rows, one.rows, other.rows, 0, rule)
    if mine is None or theirs is None:
        bare = one if mine is None else other
        raise UsageError(
            f"{bare.matrix.path} has no vocabulary beside it, and the other table has one, so "
            "their tokens cannot be paired; put its tokenizer.json beside it"
        )
    found = _pair(mine, one.rows, theirs, other.rows)
    if not found.rows:
        raise UsageError(
            f"the two vocabularies ({mine.source}, {theirs.source}) share no token, so there is "
            "nothing to compare"
        )
    return found


def _pair(mine: Vocabulary, rows: int, theirs: Vocabulary, other_rows: int) -> SharedRows:
    here, there = dict(_tokens(mine, rows)), dict(_tokens(theirs, other_rows))
    one, other = _by_key(here, mine, theirs), _by_key(there, theirs, mine)
    pairs: list[tuple[int, int]] = []
    several = 0
    for key, a in one.items():
        b = other.get(key, [])
        if len(a) == len(b) == 1:
            pairs.append((a[0], b[0]))
        elif a and b:
            paired = list(_by_piece(a, b, here, there))
            pairs += paired
            several += max(len(a), len(b)) - len(paired)
    pairs.sort()
    rule = "by the bytes of their tokens"
    if _loses_spaces(mine) is not _loses_spaces(theirs):
        rule += "; WordPiece's beginnings of words are those with a space before them"
    return SharedRows(
        tuple(a for a, _ in pairs), tuple(b for _, b in pairs), len(here), len(there), several, rule
    )


def _tokens(vocabulary: Vocabulary, rows: int) -> Iterator[tuple[int, Token]]:
    """Tokens that have a row."""
    for row, token in enumerate(vocabulary.tokens[:rows]):
        if token is not None:
            yield row, token


def _by_key(
    tokens: dict[int, Token], vocabulary: Vocabulary, other: Vocabulary
) -> dict[Key, list[int]]:
    spaced = _loses_spaces(vocabulary) and not _loses_spaces(other)
    found: dict[Key, list[int]] = {}
    for row, token in tokens.items():
        key = _spaced(token, vocabulary, other) if spaced else token.key
        if key:
            found.setdefault((key, token.kind is TokenKind.BYTE), []).append(row)
    return found


def _spaced(token: Token, own: Vocabulary, other: Vocabulary) -> bytes:
    """The key of a WordPiece token in a vocabulary that keeps its spaces."""
    if token.kind is not TokenKind.TEXT:
        return token.key
    if token.key.startswith(b"##") and len(token.key) > 2:
        return token.key[2:]
    # Punctuation stands without a space in most texts, and some vocabularies have it so alone.
    alone = not other.ids(b" " + token.key) and not own.ids(b"##" + token.key)
    return token.key if alone else b" " + token.key


def _by_piece(
    a: list[int], b: list[int], here: dict[int, Token], there: dict[int, Token]
) -> Iterator[tuple[int, int]]:
    """Rows of one key, told apart by the piece as the file writes it."""
    pieces = [here[row].piece for row in a]
    others = [there[row].piece for row in b]
    for row, piece in zip(a, pieces, strict=True):
        if pieces.count(piece) == others.count(piece) == 1:
            yield row, b[others.index(piece)]


def _loses_spaces(vocabulary: Vocabulary) -> bool:
    return vocabulary.scheme == "wordpiece"
