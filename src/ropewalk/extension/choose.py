"""Which schedule to write, from what was measured, and why, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ropewalk.extension.score import SHIPPED, Bench, Candidate, Grid, Score
from ropewalk.proof.cells import Outcome, Row
from ropewalk.proof.statistics.paired import MeanDifference, mean_difference, sign_flip
from ropewalk.short import short

TOLERANCE = 0.02
"""How much more short text may cost, as a share of its loss."""
KEPT = 3
"""So many leaders are asked on, whatever the distance between them."""

SIGNIFICANT = 0.05

Tell = Callable[[str], None]


@short
@dataclass(frozen=True, slots=True)
class Choice:
    """The score that is to be written, and the sentences that say why; None: none can be."""

    score: Score | None
    why: tuple[str, ...]


def measure(
    bench: Bench, entries: Iterable[Candidate], grid: Grid, deadline: float | None, tell: Tell
) -> list[Score]:
    """Score every candidate, trial by trial; who is far behind is asked no further.

    After a trial a candidate goes on that has at least half of the best one's hits or is among
    the KEPT best by log-probability. The model as it is, is asked once. Where there is a deadline,
    prompts with a gap say who is asked first; candidates that no time was left for have no rows.
    """
    entries = list(entries)
    tell("reading short text under every schedule")
    losses = {entry.name: bench.short_loss(entry) for entry in entries}
    before = losses.get(SHIPPED) or bench.short_loss(Candidate(SHIPPED, bench.spec))
    scores = {e.name: Score(e, (), losses[e.name], losses[e.name] / before - 1.0) for e in entries}
    going = [entry.name for entry in entries]
    if deadline is not None:
        # Time may end before all have been asked: the likeliest first.
        tell("prompts with a gap, to see whom to ask first")
        hope = {entry.name: bench.gaps(entry, max(grid.lengths)) for entry in entries}
        going.sort(key=lambda name: -hope[name])
    for trial in range(grid.trials):
        for name in going:
            tell(f"document {trial + 1} of {grid.trials}: {name}")
            upto = replace(grid, trials=trial + 1)
            rows = bench.needles(scores[name].candidate, upto, deadline)
            scores[name] = replace(scores[name], rows=rows)
        if trial + 1 < grid.trials:
            going, scores = _narrowed(going, scores)
    return list(scores.values())


def _narrowed(going: Sequence[str], scores: dict[str, Score]) -> tuple[list[str], dict[str, Score]]:
    """Who goes on after a trial, and the scores with why the others do not."""
    best = max((scores[name].hits for name in going), default=0)
    ranked = sorted(going, key=lambda name: -(_value(scores[name])))
    kept, after = [], dict(scores)
    for name in going:
        score = scores[name]
        if name == SHIPPED:
            after[name] = replace(score, stopped="asked once, as what is to be bettered")
        elif 2 * score.hits >= best > 0 or name in ranked[:KEPT]:
            kept.append(name)
        else:
            told = f"{score.hits} of {score.asked} hits, the best had {best}"
            after[name] = replace(score, stopped=told)
    return kept, after


def choose(scores: Sequence[Score], tolerance: float = TOLERANCE) -> Choice:
    """The writable schedule with the largest share of hits among those whose short text is intact.

    Equal shares are told apart by log-probability. Where no schedule keeps short text within
    `tolerance`, the one that loses least among those that find most is named, and it is said.
    """
    measured = [score for score in scores if score.asked]
    able = [score for score in measured if score.candidate.writable]
    if not able:
        return Choice(None, ("No schedule was measured at the new length: give more time.",))
    intact = [score for score in able if score.change <= tolerance]
    best = max(intact or able, key=lambda score: (score.share, _value(score)))
    why = [_found(best)]
    if not intact:
        why.append(
            f"No schedule keeps the loss of short text within {tolerance:.0%} of the model's own; "
            f"this one changes it by {best.change:+.2%}."
        )
    rivals = [s for s in (intact or able) if s is not best]
    if rivals:
        second = max(rivals, key=lambda score: (score.share, _value(score)))
        why.append(_beside(best, second))
    why += _asides(scores, best, intact)
    return Choice(best, tuple(why))


def paired(one: Sequence[Row], other: Sequence[Row]) -> MeanDifference | None:
    """Log-probability of `one` above `other` on the prompts of both, a mean a trial; None: none.

    The prompts of a trial share a document, so that trials are what is independent.
    """
    theirs = {row.cell: row.answer.log_probability for row in other}
    trials: dict[int, list[float]] = {}
    for row in one:
        mine, his = row.answer.log_probability, theirs.get(row.cell)
        if mine is not None and his is not None:
            trials.setdefault(row.cell.trial, []).append(mine - his)
    means = [math.fsum(each) / len(each) for each in trials.values()]
    return mean_difference(means) if means else None


def _value(score: Score) -> float:
    value = score.log_probability
    return -math.inf if value is None else value


def _found(best: Score) -> str:
    return (
        f"{best.name}: {best.hits} of {best.asked} facts found, log-probability "
        f"{_value(best):.2f}, short text {best.change:+.2%}."
    )


def _beside(best: Score, second: Score) -> str:
    """How sure it is that the first is better than the second."""
    told = f"The next is {second.name} with {second.hits} of {second.asked}"
    apart = paired(best.rows, second.rows)
    if apart is None:
        return f"{told}; they share no prompt."
    chance = _by_chance(best, second)
    if apart.low is None or apart.high is None:
        doubt = ", so that chance may decide between the two" if chance else ""
        return (
            f"{told}; on the same document {apart.value:+.2f} nats lie between them, by one look"
            f"{doubt}."
        )
    doubt = ""
    if apart.high < 0 and not chance:
        doubt = ", against the one that found more"
    elif apart.low <= 0 and chance:
        doubt = ", so that chance may decide between the two"
    return (
        f"{told}; on the same prompts {apart.value:+.2f} nats lie between them "
        f"({apart.low:+.2f} to {apart.high:+.2f}, 95 %, {apart.count} documents){doubt}."
    )


def _shared(one: Score, other: Score) -> list[tuple[int, bool, bool]]:
    """Trial and hits of the prompts that both were asked."""
    theirs = {row.cell: row.answer.outcome is Outcome.HIT for row in other.rows}
    return [
        (row.cell.trial, row.answer.outcome is Outcome.HIT, theirs[row.cell])
        for row in one.rows
        if row.cell in theirs
    ]


def _by_chance(one: Score, other: Score) -> bool:
    """Whether chance could make the difference in hits, documents counted as one."""
    trials: dict[int, float] = {}
    for trial, mine, his in _shared(one, other):
        trials[trial] = trials.get(trial, 0.0) + mine - his
    return sign_flip(list(trials.values())) >= SIGNIFICANT


def _against(score: Score, best: Score) -> str:
    """What one that cannot be taken does beside the one that is: more hits, or as many."""
    pairs = _shared(score, best)
    mine, his = sum(hit for _, hit, _ in pairs), sum(hit for _, _, hit in pairs)
    if len(pairs) < max(score.asked, best.asked) and mine <= his:
        return (
            f"{score.name} found {score.hits} of {score.asked}, where not all of the "
            f"{best.asked} prompts of {best.name} were asked"
        )
    of = f"of the same {len(pairs)} prompts"
    if mine > his:
        doubt = ", which chance may do" if _by_chance(score, best) else ""
        return f"{score.name} found {mine} {of}, {best.name} {his}{doubt}"
    apart = paired(score.rows, best.rows)
    nats = "" if apart is None else f", with the value {abs(apart.value):.2f} nats likelier"
    sure = apart is not None and apart.low is not None and apart.low > 0
    doubt = "" if sure or not nats else ", which chance may do"
    return f"{score.name} found as many as {best.name}, {mine} {of}{nats}{doubt}"


def _asides(scores: Sequence[Score], best: Score, intact: Sequence[Score]) -> list[str]:
    """What else has to be said: better ones that cannot be taken, and those not measured."""
    told = []
    for score in scores:
        better = (score.share, _value(score)) > (best.share, _value(best))
        if score.candidate.how is not None and score.asked and better:
            told.append(f"{_against(score, best)}; it cannot be written: {score.candidate.note}.")
        elif score.candidate.writable and score.asked and better and score not in intact:
            told.append(f"{_against(score, best)}; it costs short text {score.change:+.2%}.")
    missed = [score.name for score in scores if not score.asked]
    if missed:
        told.append(f"Not measured at the new length for want of time: {', '.join(missed)}.")
    return told
