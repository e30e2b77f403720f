"""Pairs of words: the cosine of their vectors against what people said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.near import unit_rows
from ropewalk.tables.score.datasets import Pair, PairSet
from ropewalk.tables.score.ranks import pearson, spearman

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.score.lookup import Lookup

Vector = Callable[[str], "Tensor | None"]
"""A word's vector (width,); None where it has none."""


@short
@dataclass(frozen=True, slots=True)
class PairScore:
    """One benchmark. Correlations are None where they are undefined: cosines all the same.

    `used` of `total` pairs were scored; `missing` are the words without a vector, sorted;
    `no_direction` those whose vector is zero or holds NaN or infinity.
    """

    name: str
    source: str
    spearman: float | None
    pearson: float | None
    used: int
    total: int
    missing: tuple[str, ...]
    no_direction: tuple[str, ...]

    @property
    def oov_ratio(self) -> float:
        """Share of the pairs that were not scored, in percent, as gensim reports it."""
        return 100.0 * (self.total - self.used) / self.total


def score_pairs(pairs: PairSet, vector: Vector) -> PairScore:
    """Score judged pairs by cosine; pairs with a word that has no vector are left out.

    Raises UsageError where no pair is left.
    """
    import torch

    words = sorted({word for pair in pairs.pairs for word in (pair.one, pair.other)})
    vectors: dict[str, Tensor] = {}
    missing, bare = [], []
    for word in words:
        found = vector(word)
        if found is None:
            missing.append(word)
        elif not 0.0 < float(found.double().abs().amax()) < float("inf"):
            bare.append(word)
        else:
            vectors[word] = found
    kept = [pair for pair in pairs.pairs if pair.one in vectors and pair.other in vectors]
    if not kept:
        raise UsageError(
            f"none of the {len(pairs.pairs)} pairs of {pairs.source} has both its words in the "
            f"vocabulary (such as {', '.join(missing[:3]) or ', '.join(bare[:3])}); "
            "folding case, another spelling or the mean of pieces may find them"
        )
    judged = torch.tensor([pair.judged for pair in kept], dtype=torch.float64)
    units = unit_rows(torch.stack([*vectors.values()]))
    at = {word: row for row, word in enumerate(vectors)}
    one, other = (
        units[[at[word] for word in side]] for side in zip(*map(_words, kept), strict=True)
    )
    cosines = (one * other).sum(dim=1)
    return PairScore(
        name=pairs.name,
        source=pairs.source,
        spearman=spearman(judged, cosines),
        pearson=pearson(judged, cosines),
        used=len(kept),
        total=len(pairs.pairs),
        missing=tuple(missing),
        no_direction=tuple(bare),
    )


def _words(pair: Pair) -> tuple[str, str]:
    return pair.one, pair.other


def table_vectors(table: EmbeddingTable, lookup: Lookup) -> Vector:
    """Vectors read row by row; of a word in pieces the mean of its rows."""

    def vector(word: str) -> Tensor | None:
        found = lookup(word)
        return None if found is None else table[list(found.rows)].double().mean(dim=0)

    return vector
