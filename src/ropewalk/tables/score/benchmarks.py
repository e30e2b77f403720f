"""Tables scored: judged pairs by correlation, analogies by 3CosAdd, exact over the whole table.

Of pairs the cosine of their vectors is held against what people said, by Pearson's and Spearman's
correlation (Pearson's of the ranks). An analogy is answered by the row nearest to
unit b + unit c - unit a (Mikolov, Yih and Zweig, "Linguistic regularities in continuous space word
representations", NAACL 2013, section 4). The question's words are no answers, in any spelling: in a
table that has "king", " king" and "King", the nearest row to a word is mostly another spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import as_array, as_tensor
from ropewalk.short import short
from ropewalk.tables.score.datasets import AnalogyQuestion, AnalogySet, JudgedPair, PairSet
from ropewalk.tables.score.spellings import Lookup
from ropewalk.tables.search import neighbours, unit_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.score.spellings import Lookup

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
    units = _units(torch.stack([*vectors.values()]))
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


def _words(pair: JudgedPair) -> tuple[str, str]:
    return pair.one, pair.other


def table_vectors(table: EmbeddingTable, lookup: Lookup) -> Vector:
    """Vectors read row by row; of a word in pieces the mean of its rows."""

    def vector(word: str) -> Tensor | None:
        found = lookup(word)
        return None if found is None else table[list(found.rows)].double().mean(dim=0)

    return vector


def _units(vectors: Tensor) -> Tensor:
    return as_tensor(unit_rows(as_array(vectors)))


def pearson(one: Tensor, other: Tensor) -> float | None:
    """The correlation of two vectors (n,); None where one of them does not vary, or n < 2."""
    x, y = one.double(), other.double()
    x, y = x - x.mean(), y - y.mean()
    spread = float(x.norm() * y.norm())
    if len(x) < 2 or not spread > 0.0:
        return None
    return max(-1.0, min(1.0, float(x @ y) / spread))


def spearman(one: Tensor, other: Tensor) -> float | None:
    """The correlation of the ranks of two vectors (n,); None as for `pearson`."""
    return pearson(ranks(one), ranks(other))


def ranks(values: Tensor) -> Tensor:
    """Ranks (n,) fp64 from 1; equal values have the mean of the ranks that they take up."""
    import torch

    _, group, counts = torch.unique(values, return_inverse=True, return_counts=True)
    last = torch.cumsum(counts, 0).double()
    mean: Tensor = last - (counts.double() - 1) / 2
    return mean[group]


_AT_ONCE = 4096
"""Questions whose answers are looked for in one pass over the table."""


@short
@dataclass(frozen=True, slots=True)
class AnalogySection:
    """Of `total` questions `asked` have all four words, and `correct` of those were answered."""

    name: str
    correct: int
    asked: int
    total: int

    @property
    def accuracy(self) -> float | None:
        """Of those that were asked; None for none."""
        return self.correct / self.asked if self.asked else None


@short
@dataclass(frozen=True, slots=True)
class AnalogyScore:
    """All sections in the file's order. `correct` holds the questions that were answered."""

    name: str
    source: str
    sections: tuple[AnalogySection, ...]
    correct: tuple[AnalogyQuestion, ...]

    @property
    def whole(self) -> AnalogySection:
        """All sections as one."""
        one, two, three = (
            sum(getattr(s, part) for s in self.sections) for part in ("correct", "asked", "total")
        )
        return AnalogySection("all", one, two, three)


def score_analogies(
    table: EmbeddingTable,
    analogies: AnalogySet,
    lookup: Lookup,
    *,
    share: Callable[[int, int], None] = lambda _done, _total: None,
) -> AnalogyScore:
    """Answer every question whose four words have a row; words in pieces have none here.

    `share` is called with how many questions of how many are done. Raises UsageError where none
    can be asked.
    """
    directed = _with_direction(table)
    asked = [q for q in analogies.questions if _rows(q, lookup, directed) is not None]
    if not asked:
        raise UsageError(
            f"none of the {len(analogies.questions)} questions of {analogies.source} has its four "
            "words in the vocabulary; folding case or another spelling may find them"
        )
    correct: list[AnalogyQuestion] = []
    for start in range(0, len(asked), _AT_ONCE):
        correct += _answered(table, asked[start : start + _AT_ONCE], lookup, directed)
        share(min(start + _AT_ONCE, len(asked)), len(asked))
    return AnalogyScore(
        analogies.name,
        analogies.source,
        tuple(_sections(analogies.questions, asked, correct)),
        tuple(correct),
    )


def _answered(
    table: EmbeddingTable, questions: Sequence[AnalogyQuestion], lookup: Lookup, among: Tensor
) -> Iterator[AnalogyQuestion]:
    """Those of the questions whose nearest row spells the expected word."""
    rows = [found for q in questions if (found := _rows(q, lookup, among)) is not None]
    different = sorted({row for three in rows for row in three})
    place = {row: at for at, row in enumerate(different)}
    units = _units(table[different])
    a, b, c = ([place[three[i]] for three in rows] for i in range(3))
    taken = [
        sorted({row for word in (q.a, q.b, q.c) for row in lookup.any_case(word)} | set(three))
        for q, three in zip(questions, rows, strict=True)
    ]
    queries = units[b] + units[c] - units[a]
    # Unit rows may cancel out, to the rounding of float32; what has no direction has no answer.
    led = [i for i, length in enumerate(queries.norm(dim=1).tolist()) if length > 1e-6]
    if not led:
        return
    nearest = neighbours(table, queries[led], 1, exclude=[taken[i] for i in led], among=among)
    for at, row in zip(led, nearest.ids[:, 0].tolist(), strict=True):
        if row in lookup.same_word(questions[at].expected):
            yield questions[at]


def _rows(
    question: AnalogyQuestion, lookup: Lookup, directed: Tensor
) -> tuple[int, int, int] | None:
    """Rows of a, b and c, where these and the expected word have one with a direction."""
    found = [lookup(word) for word in (question.a, question.b, question.c, question.expected)]
    rows = [f.rows[0] for f in found if f is not None and len(f.rows) == 1]
    if len(rows) < 4 or not all(bool(directed[row]) for row in rows):
        return None
    return rows[0], rows[1], rows[2]


def _with_direction(table: EmbeddingTable) -> Tensor:
    """Which rows (rows,) stand for a token and have a direction."""
    import torch

    fine = torch.zeros(table.rows, dtype=torch.bool)
    for start, rows in table.tiles():
        peak = rows.double().abs().amax(dim=1)
        fine[start : start + len(rows)] = (peak > 0) & torch.isfinite(peak)
    known = table.with_token()
    if known is not None:
        fine &= torch.from_numpy(known)
    return fine


def _sections(
    questions: Sequence[AnalogyQuestion],
    asked: Sequence[AnalogyQuestion],
    correct: Sequence[AnalogyQuestion],
) -> Iterator[AnalogySection]:
    names = list(dict.fromkeys(q.section for q in questions))
    for name in names:
        counts = (sum(q.section == name for q in part) for part in (correct, asked, questions))
        yield AnalogySection(name, *counts)
