"""Two runs on the same prompts: what one finds and the other does not, and what of it is chance.

Answers are paired by cell, key, value and the whole text of the prompt; a prompt that only one
run asked, or that reads otherwise there, is counted and left out. Pairs of which an answer could
not be judged are counted and left out too. Outcomes are compared by McNemar's exact test,
log-probabilities of the value by the mean difference with Student's interval and a sign-flip
test. Where the questions of a trial share a document, both tests take the document as the unit.

Two families are corrected by Holm, each for itself: the two tests over all pairs, and those of
all lengths and depths.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ropewalk.errors import StoreError
from ropewalk.proof.cells import JUDGED, UNANSWERED, Control, Outcome, Row, Sharing
from ropewalk.proof.facts import IDENTITY
from ropewalk.proof.statistics.paired import (
    MeanDifference,
    fewest_units,
    holm,
    least_p,
    mcnemar,
    mean_difference,
    sign_flip,
)
from ropewalk.proof.statistics.tally import own_rows
from ropewalk.proof.store import Store
from ropewalk.short import short
from ropewalk.shown import Shown

SIGNIFICANT = 0.05

COMPARED = ("name", "rope", *IDENTITY, "device", "versions")
"""The facts that are shown where two runs differ in them."""


@short
@dataclass(frozen=True, slots=True)
class KeptRun:
    """What a run folder holds: its facts, and every row beside the digest of its prompt's text."""

    folder: str
    facts: Mapping[str, str]
    rows: tuple[tuple[Row, str], ...]

    @classmethod
    def read(cls, folder: Path) -> KeptRun:
        """Read a run folder, also while a run writes there.

        Raises StoreError when it holds no results, or what cannot be read.
        """
        with Store.read(folder) as store:
            facts = store.facts()
            rows = tuple(
                (row, hashlib.sha256(store.prompt_text(row.prompt_hash).encode()).hexdigest())
                for row in own_rows(store.rows(), facts)
            )
            return cls(str(folder), facts.said(), rows)


@short
@dataclass(frozen=True, slots=True)
class DiffPart:
    """Pairs of one part of the map. Differences are A less B, natural logarithms.

    `length` and `depth` are None where the part spans all of them. `difference` is None where no
    pair has two finite log-probabilities. p-values are corrected by Holm.
    """

    length: int | None
    depth: float | None
    both: int
    only_a: int
    only_b: int
    neither: int
    difference: MeanDifference | None
    p_outcomes: float
    p_difference: float
    units: int
    """How many documents, or pairs, the tests take as independent."""

    @property
    def pairs(self) -> int:
        """How many pairs were judged."""
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def significant(self) -> bool:
        """Whether outcomes or log-probabilities differ by more than chance."""
        return min(self.p_outcomes, self.p_difference) < SIGNIFICANT

    @property
    def interval_without_zero(self) -> bool:
        """Whether the interval of the mean difference lies on one side of 0."""
        mean = self.difference
        if mean is None or mean.low is None or mean.high is None:
            return False
        return mean.low > 0 or mean.high < 0


@short
@dataclass(frozen=True, slots=True)
class RunDiff(Shown):
    """Two runs compared: all pairs, then every length and every depth.

    `unpaired_a` and `unpaired_b` count answers to prompts that the other run did not ask,
    `other_prompt` the cells that both asked with another prompt, `unjudged` the pairs without
    two judged answers, `without_number` the judged pairs without two finite log-probabilities.
    `differing` holds the facts in which the runs differ, as (name, in A, in B).
    """

    a: str
    b: str
    differing: tuple[tuple[str, str, str], ...]
    overall: DiffPart
    lengths: tuple[DiffPart, ...]
    depths: tuple[DiffPart, ...]
    unpaired_a: int
    unpaired_b: int
    other_prompt: int
    unjudged: int
    without_number: int
    by_document: bool
    sentence: str


Pairs = Sequence[tuple[Row, Row]]


def compare(a: KeptRun, b: KeptRun, seed: int = 0) -> RunDiff:
    """Compare two runs. `seed` draws the sign flips.

    Raises StoreError when they share no prompt with an answer each.
    """
    in_a, in_b = _by_prompt(a), _by_prompt(b)
    shared = [(in_a[key], in_b[key]) for key in in_a if key in in_b]
    if not shared:
        raise StoreError(
            f"{a.folder} and {b.folder} share no prompt: runs are compared on the same prompts, "
            "which takes the same seed, haystack, tokenizer, sharing, lengths and depths"
        )
    pairs = [pair for pair in shared if all(row.answer.outcome in JUDGED for row in pair)]
    by_document = any(row.sharing is Sharing.BRANCHES for pair in pairs for row in pair)
    overall = _corrected([_compared(pairs, by_document, seed)])[0]
    parts = [
        replace(_compared(part, by_document, seed), length=int(length))
        for length, part in _parted(pairs, lambda row: row.cell.length)
    ]
    count = len(parts)
    parts += [
        replace(_compared(part, by_document, seed), depth=depth)
        for depth, part in _parted(pairs, lambda row: row.cell.depth)
    ]
    corrected = _corrected(parts)
    found = RunDiff(
        a=a.folder,
        b=b.folder,
        differing=tuple(
            (name, a.facts.get(name, "not stated"), b.facts.get(name, "not stated"))
            for name in dict.fromkeys(COMPARED)
            if a.facts.get(name) != b.facts.get(name)
        ),
        overall=overall,
        lengths=corrected[:count],
        depths=corrected[count:],
        unpaired_a=len(in_a) - len(shared),
        unpaired_b=len(in_b) - len(shared),
        other_prompt=_other_prompts(in_a, in_b),
        unjudged=len(shared) - len(pairs),
        without_number=len(pairs) - len(_differences(pairs)),
        by_document=by_document,
        sentence="",
    )
    return replace(found, sentence=_sentence(found))


Key = tuple[object, ...]


def _by_prompt(run: KeptRun) -> dict[Key, Row]:
    """The answers to the grid, controls and errors apart, by what makes two prompts the same."""
    return {
        (row.cell, row.key, row.value, digest): row
        for row, digest in run.rows
        if row.cell.control is Control.NONE and row.answer.outcome not in UNANSWERED
    }


def _other_prompts(a: Mapping[Key, Row], b: Mapping[Key, Row]) -> int:
    shared = {row.cell for key, row in a.items() if key in b}
    both = {row.cell for row in a.values()} & {row.cell for row in b.values()}
    return len(both - shared)


def _parted(
    pairs: Pairs, part_of: Callable[[Row], float]
) -> Iterable[tuple[float, Sequence[tuple[Row, Row]]]]:
    """The pairs of every length, or of every depth, ascending."""
    parts: dict[float, list[tuple[Row, Row]]] = defaultdict(list)
    for pair in pairs:
        parts[part_of(pair[0])].append(pair)
    return sorted(parts.items())


def _compared(pairs: Pairs, by_document: bool, seed: int) -> DiffPart:
    """The pairs over all lengths and depths, p-values as they are."""
    hits = [tuple(row.answer.outcome is Outcome.HIT for row in pair) for pair in pairs]
    only_a, only_b = hits.count((True, False)), hits.count((False, True))
    numbers = _differences(pairs)
    if by_document:
        outcomes = [
            (a.cell.trial, float(x - y)) for (a, _), (x, y) in zip(pairs, hits, strict=True)
        ]
        p_outcomes = sign_flip(_sums(outcomes), seed)
        difference = _mean_over_documents(numbers)
    else:
        p_outcomes = mcnemar(only_a, only_b)
        difference = mean_difference([each for _, each in numbers]) if numbers else None
    units = _sums(numbers) if by_document else [each for _, each in numbers]
    return DiffPart(
        length=None,
        depth=None,
        both=hits.count((True, True)),
        only_a=only_a,
        only_b=only_b,
        neither=hits.count((False, False)),
        difference=difference,
        p_outcomes=p_outcomes,
        p_difference=sign_flip(units, seed),
        units=len({a.cell.trial for a, _ in pairs}) if by_document else len(pairs),
    )


def _differences(pairs: Pairs) -> list[tuple[int, float]]:
    """Document and difference of log-probability of the pairs that have both as finite numbers."""
    found = []
    for a, b in pairs:
        x, y = a.answer.log_probability, b.answer.log_probability
        if x is not None and y is not None and math.isfinite(x) and math.isfinite(y):
            found.append((a.cell.trial, x - y))
    return found


def _sums(values: Sequence[tuple[int, float]]) -> list[float]:
    """Summed over what shares a document."""
    total: dict[int, list[float]] = defaultdict(list)
    for document, value in values:
        total[document].append(value)
    return [math.fsum(each) for _, each in sorted(total.items())]


def _mean_over_documents(numbers: Sequence[tuple[int, float]]) -> MeanDifference | None:
    """The mean of the documents' means, and the interval over documents."""
    parts: dict[int, list[float]] = defaultdict(list)
    for document, value in numbers:
        parts[document].append(value)
    means = [math.fsum(each) / len(each) for _, each in sorted(parts.items())]
    return mean_difference(means) if means else None


def _corrected(family: Sequence[DiffPart]) -> tuple[DiffPart, ...]:
    """The same with both p-values of all of them corrected together."""
    adjusted = holm([p for each in family for p in (each.p_outcomes, each.p_difference)])
    return tuple(
        replace(each, p_outcomes=adjusted[2 * i], p_difference=adjusted[2 * i + 1])
        for i, each in enumerate(family)
    )


def _sentence(found: RunDiff) -> str:
    """What is significant, in plain words."""
    whole = found.overall
    if not whole.pairs:
        return f"None of {found.unjudged:,} shared prompts was judged in both runs."
    counted = (
        f"Of {whole.pairs:,} prompts asked of both, A answers {whole.both + whole.only_a:,} and "
        f"B {whole.both + whole.only_b:,}"
    )
    if whole.p_outcomes < SIGNIFICANT:
        better = "A" if whole.only_a > whole.only_b else "B"
        verdict = f"{better} finds more (p = {whole.p_outcomes:.2g})"
    else:
        verdict = f"no difference in what is found beyond chance (p = {whole.p_outcomes:.2g})"
    parts = [f"{counted}: {verdict}."]
    mean = whole.difference
    if mean is not None and whole.p_difference < SIGNIFICANT:
        surer = "A" if mean.value > 0 else "B"
        parts.append(
            f"{surer} is surer of the value, by {abs(mean.value):.3f} nats on average "
            f"(p = {whole.p_difference:.2g})."
        )
    parts += _why_not(found)
    where = [f"{part.length:,} tokens" for part in found.lengths if part.significant]
    where += [f"depth {100 * (part.depth or 0):g} %" for part in found.depths if part.significant]
    if where:
        parts.append(f"They differ at {', '.join(where)}.")
    return " ".join(parts)


def _why_not(found: RunDiff) -> Iterable[str]:
    """Why p-values stay large where figures differ: too few units, or one interval of several."""
    whole, family = found.overall, 2
    unit = "document" if found.by_document else "pair"
    count = f"{whole.units:,} {unit}{'s' * (whole.units != 1)}"
    enough = fewest_units(family, SIGNIFICANT)
    parts = 2 * (len(found.lengths) + len(found.depths))
    if whole.units < enough:
        floor = least_p(whole.units)
        yield (
            f"From {count} no difference can be told from chance: when all point the same way, p "
            f"is {floor:.2g}, and {min(1.0, family * floor):.2g} corrected for {family} tests; "
            f"from {enough} {unit}s on it can fall below {SIGNIFICANT:g}."
        )
        if whole.interval_without_zero:
            yield (
                "The interval of the log-probabilities does not hold 0 all the same: it takes "
                f"their differences as normally distributed, which {count} cannot show."
            )
        return
    if whole.interval_without_zero and whole.p_difference >= SIGNIFICANT:
        yield (
            "The interval of the log-probabilities does not hold 0 all the same: it is Student's, "
            f"and not corrected for {family} tests."
        )
    if found.by_document and whole.units < fewest_units(parts, SIGNIFICANT):
        yield (
            f"Lengths and depths by themselves ({parts} tests) can be told apart from "
            f"{fewest_units(parts, SIGNIFICANT)} {unit}s on."
        )
