"""What the numbers of a proof say, in plain words. Judges nothing, only words what was judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ropewalk.prove.cells import UNJUDGED, Control, Outcome
from ropewalk.prove.summary import LengthSummary, Share
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Finding:
    """What `result` puts into words; lengths ascending, numbers as in `EffectiveLength`."""

    columns: tuple[LengthSummary, ...]
    outcomes: Mapping[int, Mapping[Outcome, int]]
    certain: int | None
    possible: int | None
    bar: float
    more_trials: int
    enough_trials: int
    """Trials a cell in all, with `more_trials`; what to ask for."""
    unit: str
    """What further trials bring: a "trial" a cell, or a "document" with all its questions."""
    trials: int
    asked: int
    planned: int
    uncovered: frozenset[int]
    """Lengths of which too few answers could be judged for a verdict."""
    nothing_found_at: int | None
    """The shortest length, where a relative threshold found no hit to measure by."""
    claimed: int | None


def result(found: Finding) -> str:
    """The effective length, what would settle it, and what did not fit, as short sentences."""
    if found.asked == 0:
        return f"No answers yet: nothing can be said; {_claim(found.claimed)}."
    parts = [_headline(found), *_remedy(found), *_misfits(found), *_unjudged(found)]
    if found.asked < found.planned:
        parts.append(f"Not finished: {found.asked:,} of {found.planned:,} answers so far.")
    return " ".join(parts)


def control(kind: Control, share: Share) -> str:
    """What the hits of one kind of control prompt mean."""
    if share.judged == 0:
        return "Not answered: says nothing."
    counted = f"{share.hits} of {share.judged}"
    if kind is Control.NEEDLE_ONLY:
        if share.hits == share.judged:
            return f"Can do the task: {counted} without a haystack."
        if share.hits:
            return f"Does the task only at times: {counted} without a haystack."
        return (
            f"Cannot do the task: {counted} even without a haystack, so that the map says "
            "nothing about length."
        )
    if kind is Control.NO_NEEDLE:
        if share.hits:
            return f"Says the value without having read it: {counted}; the map shows too much."
        return f"Does not guess: {counted} without the needle."
    if share.hits == share.judged:
        return f"Length alone costs nothing: {counted} with the needle at the end."
    return f"What length alone costs: {counted} with the needle at the end."


def _headline(found: Finding) -> str:
    claim = _claim(found.claimed)
    failing = next((c.length for c in found.columns if c.verdict == "fails"), None)
    if found.nothing_found_at is not None:
        return (
            f"Found nothing at {found.nothing_found_at:,} tokens, the shortest length answered, "
            f"so that no length can be measured by it; {claim}."
        )
    if found.certain is not None:
        if found.certain == found.columns[-1].length:
            return f"Reads {found.certain:,} tokens for certain, the longest tested; {claim}."
        if found.certain == found.possible and failing is not None:
            return (
                f"Reads {found.certain:,} tokens for certain and no more: fails at {failing:,}; "
                f"{claim}."
            )
        return f"Reads {found.certain:,} tokens for certain, {found.possible:,} possibly; {claim}."
    if found.possible is not None:
        return f"Reads no length for certain, {found.possible:,} tokens possibly; {claim}."
    if failing is not None:
        return f"Fails already at {failing:,} tokens, the shortest length answered; {claim}."
    return f"No answer could be judged; {claim}."


def _remedy(found: Finding) -> Iterable[str]:
    """What more trials would do for the first length that is not certain, when undecided."""
    blocking = next((c for c in found.columns if c.verdict != "passes"), None)
    if blocking is None or blocking.verdict != "undecided" or found.nothing_found_at is not None:
        return
    if blocking.length in found.uncovered:
        answered = sum(found.outcomes[blocking.length].values())
        yield (
            f"Only {blocking.pooled.judged:,} of {answered:,} answers at {blocking.length:,} "
            "tokens could be judged, too few for a verdict."
        )
        return
    value = blocking.pooled.value
    of_what = "any length" if found.certain is None else f"{blocking.length:,} tokens"
    if found.more_trials and found.enough_trials <= found.trials:
        yield f"Not enough answers yet to be certain of {of_what}: finishing the run may do."
    elif found.more_trials:
        a_cell = " a cell" if found.unit == "trial" else ""
        yield (
            f"Not enough {found.unit}s to be certain of {of_what}: about {found.more_trials:,} "
            f"more{a_cell} (--trials {found.enough_trials})."
        )
    elif value is not None and value <= found.bar:
        yield (
            f"At {blocking.length:,} tokens it scored {value:.1%}, not above the threshold of "
            f"{found.bar:.1%}: at this rate more trials would not settle it."
        )
    elif value is not None:
        yield (
            f"At {blocking.length:,} tokens it scored {value:.1%}, too near to the threshold of "
            f"{found.bar:.1%} for more trials to settle it."
        )


def _misfits(found: Finding) -> Iterable[str]:
    for length, outcomes in found.outcomes.items():
        overflow = outcomes.get(Outcome.OVERFLOW, 0)
        if not overflow:
            continue
        if overflow == sum(outcomes.values()):
            yield f"{length:,} tokens did not fit, and cannot be read."
        else:
            yield f"At {length:,} tokens {overflow} of {sum(outcomes.values())} did not fit."


def _unjudged(found: Finding) -> Iterable[str]:
    """How many answers of each length say nothing, by kind."""
    words = {
        Outcome.TRUNCATED: "were cut by the server before the model read them",
        Outcome.REFUSED: "were refused",
        Outcome.EMPTY: "got an empty answer",
    }
    for length, outcomes in found.outcomes.items():
        asked = sum(outcomes.values())
        for outcome in UNJUDGED:
            if outcomes.get(outcome, 0):
                count = outcomes[outcome]
                yield f"At {length:,} tokens {count} of {asked} prompts {words[outcome]}."


def _claim(claimed: int | None) -> str:
    return "claims no length" if claimed is None else f"claims {claimed:,}"
