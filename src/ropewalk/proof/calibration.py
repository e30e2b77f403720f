"""Do questions that share a document get the answers that prompts of their own would get?

A document that holds a needle for every depth is a prompt with distractors in it, and may be
harder than a prompt with one needle. So some cells are asked both ways, and the paired
differences are tested: the log-probability of the value by a sign-flip permutation test, the
outcomes by McNemar's exact test, both corrected by Holm. A difference is real when one of them is
significant at 5 %, and, for log-probabilities, when it is also large enough to matter.

Pairs of one document are tested as if they were independent. That can only make a difference
look more certain than it is, and the run fall back to prompts of their own without need.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from ropewalk.proof.cells import JUDGED, Answer, Cell, Control, Outcome
from ropewalk.proof.plan import Plan
from ropewalk.proof.statistics.paired import (
    MeanDifference,
    holm,
    mcnemar,
    mean_difference,
    sign_flip,
)
from ropewalk.short import short

SHORT_CELLS = 60
"""How many cells a short calibration asks both ways, where the plan has as many."""

SIGNIFICANT = 0.05
MATTERS = 0.03
"""Nats: a smaller mean difference changes how likely a value is by less than 3 %."""


class Calibrate(StrEnum):
    """How many cells are asked both ways."""

    OFF = "off"
    """None: what the answers are worth is then not known."""
    SHORT = "short"
    """SHORT_CELLS of the shorter lengths."""
    FULL = "full"
    """All of them."""


@short
@dataclass(frozen=True, slots=True)
class CalibrationPair:
    """The answers to one cell, asked within a shared document and by a prompt of its own."""

    cell: Cell
    nested: Answer
    alone: Answer


@short
@dataclass(frozen=True, slots=True)
class Calibration:
    """What pairs say. Differences are nested less alone, natural logarithms.

    `pairs` are those with both answers judged; `left_out` the others. `difference` is None where
    no pair has two finite log-probabilities; `without_number` counts the judged pairs that lack
    one. The p-values are corrected for there being two of them. `lengths` are those asked.
    `not_laid` says in words which cells could not be laid out both ways, "" where all could.
    """

    lengths: tuple[int, ...]
    pairs: int
    left_out: int
    both: int
    only_nested: int
    only_alone: int
    neither: int
    difference: MeanDifference | None
    without_number: int
    p_difference: float
    p_outcomes: float
    real: bool
    sentence: str
    not_laid: str = ""


def plan_calibration(plan: Plan, mode: Calibrate, seed: int) -> tuple[Cell, ...]:
    """The cells of `plan` to ask both ways, in the plan's order.

    Short: the shortest lengths that hold SHORT_CELLS cells between them, at least two of them
    where the plan has two, and of those cells SHORT_CELLS, drawn by `seed` so that every field of
    the map gets the same number of trials, or one more. Controls are never among them.
    """
    cells = [cell for cell in plan.cells if cell.control is Control.NONE]
    if mode is Calibrate.OFF:
        return ()
    if mode is Calibrate.FULL or len(cells) <= SHORT_CELLS:
        return tuple(cells)
    fields: dict[tuple[int, float, str], list[Cell]] = defaultdict(list)
    gathered = 0
    for number, length in enumerate(plan.lengths):
        if gathered >= SHORT_CELLS and number >= 2:
            break
        for cell in cells:
            if cell.length == length:
                fields[cell.length, cell.depth, cell.task].append(cell)
                gathered += 1
    random = Random(f"{seed}/calibration")
    queues = list(fields.values())
    random.shuffle(queues)
    for queue in queues:
        random.shuffle(queue)
    drawn: set[Cell] = set()
    while len(drawn) < SHORT_CELLS:
        for queue in queues:
            if queue and len(drawn) < SHORT_CELLS:
                drawn.add(queue.pop())
    return tuple(cell for cell in cells if cell in drawn)


def judge(pairs: Sequence[CalibrationPair], seed: int = 0, not_laid: str = "") -> Calibration:
    """Test the pairs and say in one sentence what follows.

    `not_laid` says which cells could not be laid out, in words.
    """
    judged = [p for p in pairs if p.nested.outcome in JUDGED and p.alone.outcome in JUDGED]
    counts = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for pair in judged:
        counts[pair.nested.outcome is Outcome.HIT, pair.alone.outcome is Outcome.HIT] += 1
    differences = [each for each in map(_difference, judged) if each is not None]
    mean = mean_difference(differences) if differences else None
    raw = (sign_flip(differences, seed), mcnemar(counts[True, False], counts[False, True]))
    p_difference, p_outcomes = holm(raw)
    apart = mean is not None and p_difference < SIGNIFICANT and abs(mean.value) >= MATTERS
    real = apart or p_outcomes < SIGNIFICANT
    lengths = tuple(sorted({pair.cell.length for pair in pairs}))
    found = Calibration(
        lengths=lengths,
        pairs=len(judged),
        left_out=len(pairs) - len(judged),
        both=counts[True, True],
        only_nested=counts[True, False],
        only_alone=counts[False, True],
        neither=counts[False, False],
        difference=mean,
        without_number=len(judged) - len(differences),
        p_difference=p_difference,
        p_outcomes=p_outcomes,
        real=real,
        sentence="",
        not_laid=not_laid,
    )
    return replace(found, sentence=_sentence(found))


def _difference(pair: CalibrationPair) -> float | None:
    nested, alone = pair.nested.log_probability, pair.alone.log_probability
    if nested is None or alone is None or not (math.isfinite(nested) and math.isfinite(alone)):
        return None
    return nested - alone


def _sentence(found: Calibration) -> str:
    besides = f" Left out: {found.not_laid}." if found.not_laid else ""
    if not found.pairs:
        said = "Calibration: no cell could be judged both ways, so that nothing is known of it."
        return said + besides
    where = " and ".join(f"{length:,}" for length in _ends(found.lengths))
    between = " to ".join(f"{length:,}" for length in _ends(found.lengths))
    tokens = where if len(found.lengths) <= 2 else between
    asked = (
        f"Calibration: {found.pairs} cells at {tokens} tokens asked both ways, "
        f"{found.both + found.only_nested} right in shared documents and "
        f"{found.both + found.only_alone} by prompts of their own (McNemar p = "
        f"{found.p_outcomes:.2g})"
    )
    mean = found.difference
    if mean is not None:
        asked += f"; log-probability {mean.value:+.3f} in shared documents"
        if mean.low is not None and mean.high is not None:
            asked += f", 95 % from {mean.low:+.3f} to {mean.high:+.3f}"
        asked += f" (p = {found.p_difference:.2g})"
    if found.real:
        said = "the difference is beyond chance, so that prompts of their own are asked instead."
        return f"{asked}: {said}{besides}"
    return f"{asked}: no difference beyond chance that matters.{besides}"


def _ends(lengths: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((lengths[0], lengths[-1])))
