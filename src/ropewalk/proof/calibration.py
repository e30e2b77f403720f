"""Do branches of one haystack get the answers that prompts of their own would get?

What stands behind a branch's needle has not seen it, and the other gaps are empty. So some cells
are asked both ways, those of the longest lengths first, where it matters, and the paired
differences are tested: the log-probability of the value by a sign-flip permutation test, the
outcomes by McNemar's exact test, both corrected by Holm. A difference is real when one of them is
significant at 5 %, and, for log-probabilities, when it is also large enough to matter.

Pairs of one haystack are tested as if they were independent. That can only make a difference
look more certain than it is, and the run fall back to prompts of their own without need.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from random import Random

from ropewalk.proof.ask import Asking, ask
from ropewalk.proof.cells import JUDGED, Answer, Calibrate, Cell, Control, Outcome, Sharing
from ropewalk.proof.plan import Plan, Prompts, in_words
from ropewalk.proof.progress import Event, RunResult
from ropewalk.proof.statistics.paired import (
    MeanDifference,
    holm,
    mcnemar,
    mean_difference,
    sign_flip,
)
from ropewalk.proof.subject import Subject
from ropewalk.short import short

SHORT_CELLS = 60
FEWEST_CELLS = 6
"""How many cells a short calibration asks both ways at most, and at least, where there are as many.
In between it reads no more than the branches themselves."""

SIGNIFICANT = 0.05
MATTERS = 0.25
"""Nats: a smaller mean difference changes how likely a value is by less than a quarter, and hardly
any outcome."""


@short
@dataclass(frozen=True, slots=True)
class CalibrationPair:
    """The answers to one cell, asked as a branch and by a prompt of its own."""

    cell: Cell
    branch: Answer
    alone: Answer


@short
@dataclass(frozen=True, slots=True)
class Calibration:
    """What pairs say. Differences are branch less alone, natural logarithms.

    `pairs` are those with both answers judged; `left_out` the others. `difference` is None where
    no pair has two finite log-probabilities; `without_number` counts the judged pairs that lack
    one. The p-values are corrected for there being two of them. `lengths` are those asked.
    `not_laid` says in words which cells could not be laid out both ways, "" where all could.
    """

    lengths: tuple[int, ...]
    pairs: int
    left_out: int
    both: int
    only_branch: int
    only_alone: int
    neither: int
    difference: MeanDifference | None
    without_number: int
    p_difference: float
    p_outcomes: float
    real: bool
    sentence: str
    not_laid: str = ""


def plan_calibration(plan: Plan, mode: Calibrate, seed: int, most: int) -> tuple[Cell, ...]:
    """The cells of `plan` to ask both ways, in the plan's order.

    Short: of the longest length first, a cell of every field of the map and then another, drawn by
    `seed`, and so on to shorter lengths, as long as the prompts come to `most` tokens or less; at
    least FEWEST_CELLS and at most SHORT_CELLS. Controls are never among them.
    """
    cells = [cell for cell in plan.cells if cell.control is Control.NONE]
    if mode is Calibrate.OFF:
        return ()
    if mode is Calibrate.FULL:
        return tuple(cells)
    random = Random(f"{seed}/calibration")
    shuffled = {length: _shuffled(cells, length, random) for length in plan.lengths}
    drawn: dict[Cell, None] = {}
    read = 0
    for length in sorted(plan.lengths, reverse=True):
        # Not all of one length where shorter ones are to be had for less.
        share = most if length == min(plan.lengths) else read + (most - read) // 2
        for cell in shuffled[length]:
            if read + length <= share and len(drawn) < SHORT_CELLS:
                drawn[cell] = None
                read += length
    for length in sorted(plan.lengths):
        for cell in shuffled[length]:
            if len(drawn) < FEWEST_CELLS:
                drawn[cell] = None
    return tuple(cell for cell in cells if cell in drawn)


def _shuffled(cells: Sequence[Cell], length: int, random: Random) -> list[Cell]:
    """The cells of a length in a random order, every depth once before one comes twice."""
    fields: dict[tuple[float, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.length == length:
            fields[cell.depth, cell.task].append(cell)
    queues = list(fields.values())
    random.shuffle(queues)
    for queue in queues:
        random.shuffle(queue)
    return [cell for cell in chain.from_iterable(zip_longest(*queues)) if cell is not None]


def judge(pairs: Sequence[CalibrationPair], seed: int = 0, not_laid: str = "") -> Calibration:
    """Test the pairs and say in one sentence what follows.

    `not_laid` says which cells could not be laid out, in words.
    """
    judged = [p for p in pairs if p.branch.outcome in JUDGED and p.alone.outcome in JUDGED]
    counts = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for pair in judged:
        counts[pair.branch.outcome is Outcome.HIT, pair.alone.outcome is Outcome.HIT] += 1
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
        only_branch=counts[True, False],
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
    branch, alone = pair.branch.log_probability, pair.alone.log_probability
    if branch is None or alone is None or not (math.isfinite(branch) and math.isfinite(alone)):
        return None
    return branch - alone


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
        f"{found.both + found.only_branch} right as branches and "
        f"{found.both + found.only_alone} by prompts of their own (McNemar p = "
        f"{found.p_outcomes:.2g})"
    )
    mean = found.difference
    if mean is not None:
        asked += f"; log-probability {mean.value:+.3f} as branches"
        if mean.low is not None and mean.high is not None:
            asked += f", 95 % from {mean.low:+.3f} to {mean.high:+.3f}"
        asked += f" (p = {found.p_difference:.2g})"
    if found.real:
        said = "the difference is beyond chance, so that prompts of their own are asked instead."
        return f"{asked}: {said}{besides}"
    return f"{asked}: no difference beyond chance that matters.{besides}"


def _ends(lengths: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((lengths[0], lengths[-1])))


def calibration_plan(plan: Plan, mode: Calibrate, seed: int, most: int) -> Plan:
    """The plan of the cells to ask both ways: those that a haystack has a gap for."""
    single = replace(plan, cells=tuple(cell for cell in plan.cells if cell.task == "single"))
    return replace(single, cells=plan_calibration(single, mode, seed, most))


def ask_both_ways(
    part: Plan, branches: Prompts, alone: Prompts, subject: Subject, asking: Asking, seed: int
) -> tuple[Calibration | None, RunResult | None]:
    """Ask some cells both ways; what that says, or how it ended before it could say anything.

    What was asked is kept, so that nothing of it is asked again. Also what prompts of their
    own share is read once: their answers are those that they would get alone.
    """
    cells = part.cells
    if not cells:
        return None, None
    both = _BothWays(len(cells), asking.on_event)
    # A haystack with one gap, of a needle that fills it, is the prompt alone.
    apart = replace(
        asking,
        hash_of=lambda prompt: f"alone|{asking.hash_of(prompt)}",
        on_event=both.first,
    )
    left_out: dict[Cell, str] = {}
    for sharing, prompts, given in (
        (Sharing.NONE, alone, apart),
        (Sharing.BRANCHES, branches, replace(asking, on_event=both.second)),
    ):
        result = ask(part, prompts, subject, given, sharing)
        if result.interrupted or result.out_of_time:
            return None, result
        left_out.update(result.left_out)
    answers: dict[Sharing, dict[Cell, Answer]] = {Sharing.NONE: {}, Sharing.BRANCHES: {}}
    for row in asking.store.rows():
        if row.sharing in answers:
            answers[row.sharing][row.cell] = row.answer
    asked, apart_of = answers[Sharing.BRANCHES], answers[Sharing.NONE]
    pairs = [
        CalibrationPair(cell, asked[cell], apart_of[cell])
        for cell in cells
        if cell in asked and cell in apart_of
    ]
    return judge(pairs, seed, in_words(left_out) if left_out else ""), None


class _BothWays:
    """Events of two passes over the same cells, told as those of one: its counts only grow."""

    def __init__(self, cells: int, on_event: Callable[[Event], None]) -> None:
        self._cells, self._on_event = cells, on_event
        self._begun = time.monotonic()

    def first(self, event: Event) -> None:
        """An event of the first pass."""
        self._tell(event, 0, 0)

    def second(self, event: Event) -> None:
        """An event of the second pass, behind all of the first."""
        self._tell(event, self._cells, event.tokens_total)

    def _tell(self, event: Event, cells: int, tokens: int) -> None:
        done, total = tokens + event.tokens_done, 2 * event.tokens_total
        passed = time.monotonic() - self._begun
        # In proportion: what is left of this pass says nothing of the other.
        left = passed * (total - done) / done if done else event.eta_seconds
        told = replace(
            event,
            done=cells + event.done,
            total=2 * self._cells,
            tokens_done=done,
            tokens_total=total,
            eta_seconds=left,
        )
        self._on_event(told)
