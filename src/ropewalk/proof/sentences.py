"""What the numbers of a proof say in plain words, and what the schedule predicted beside them.

`result` and `control` word what was judged, and judge nothing. `predict` and `reasons` give likely
reasons beside a failure, no verdicts:

- Angles that training did not show (`ropewalk.rope.diagnostics.pair_rows`).
- The similarity horizon (2405.14591): beyond it a key like the query no longer scores above a
  random one on average.
- Position frequency (2410.18745): how much of training had distances as large. Of windows of T
  tokens, all full, a share of (T - d)(T - d + 1) / (T (T + 1)) of the pairs of tokens lies at
  distance d or more; with shorter documents it is less.
- Learned positions that end, and windows beyond which no layer sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ropewalk.errors import ScheduleError
from ropewalk.proof.cells import Control, Outcome
from ropewalk.proof.summary import LengthSummary, LengthVerdict, Share
from ropewalk.rope.diagnostics import pair_rows, similarity_horizon
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.spec import LearnedPositions, Length, PositionSpec, SinusoidalSpec
from ropewalk.short import short

RARE = 0.05
"""Distances that make up less than this share of training are called rare."""


@short
@dataclass(frozen=True, slots=True)
class Prediction:
    """What the schedule says of prompts of `length` tokens. Lengths in tokens.

    `unseen` of `pairs` rotary pairs rotate to angles that training did not show; `horizon` is the
    shortest similarity horizon of the layers without a window, None where none lies within the
    length; `reach` is the widest window where every layer has one; `rows` the last learned
    position.
    """

    length: int
    trained: int | None
    unseen: int
    pairs: int
    horizon: int | None
    reach: int | None
    rows: int | None
    guessed: bool = False
    """Whether `trained` is a guess."""


def predict(spec: PositionSpec, length: int, trained: Length | None = None) -> Prediction:
    """Read off `spec` what is to be expected at `length`, before any model runs.

    `trained` None: the trained length that an audit computes with, stated or guessed.
    """
    known = trained_length(spec) if trained is None else trained
    unseen = pairs = 0
    horizons: list[int] = []
    for group, rotary in spec.rotary_groups():
        pairs += rotary.pairs
        try:
            rows = pair_rows(rotary, known.tokens, length, group.window)
            if group.window is None:
                still = (rotary.head_dim - rotary.rotary_dim) // 2
                found = similarity_horizon(schedule(rotary, length).inv_freq, length, still)
                horizons += [] if found is None else [found]
        except ScheduleError:
            # A schedule that cannot be built predicts nothing; the audit says why.
            continue
        unseen += sum(1 for row in rows if row.unseen)
    windows = [group.window for group in spec.groups]
    limits = [
        group.encoding.rows
        for group in spec.groups
        if isinstance(group.encoding, LearnedPositions | SinusoidalSpec) and group.encoding.rows
    ]
    return Prediction(
        length=length,
        trained=known.tokens,
        guessed=known.tokens is not None and not known.stated,
        unseen=unseen,
        pairs=pairs,
        horizon=min(horizons, default=None),
        reach=max(w.reach for w in windows if w) if windows and all(windows) else None,
        rows=min(limits, default=None),
    )


def reasons(found: Prediction, depth: float) -> tuple[str, ...]:
    """Likely reasons why a needle at `depth` (0 to 1) is not found, the strongest first.

    The needle lies (1 - depth) of the length before the question. Empty where nothing in the
    schedule speaks against it.
    """
    distance = round((1 - depth) * found.length)
    training = "" if found.trained is None else f"training at {found.trained:,} tokens"
    training += " (a guess)" if found.guessed else ""
    said: list[str] = []
    if found.rows is not None and found.length > found.rows:
        said.append(f"positions end at {found.rows:,}")
    if found.unseen and training:
        said.append(
            f"{found.unseen} of {found.pairs} rotary pairs rotate to angles that {training} did "
            "not show"
        )
    if found.reach is not None and distance >= found.reach:
        said.append(
            f"no layer sees further back than {found.reach:,} tokens, and the needle lies "
            f"{distance:,} before the question"
        )
    if found.horizon is not None and distance >= found.horizon:
        said.append(
            f"the needle lies {distance:,} tokens before the question, and the similarity horizon "
            f"is at {found.horizon:,}"
        )
    if found.trained is not None:
        share = frequency(found.trained, distance)
        if distance >= found.trained:
            said.append(f"a distance of {distance:,} tokens did not occur in {training}")
        elif share < RARE:
            said.append(
                f"distances of {distance:,} tokens and more are at most {share:.1%} of those in "
                f"{training}"
            )
    return tuple(said)


def frequency(trained: int, distance: int) -> float:
    """The share of token pairs at `distance` or more in full windows of `trained` tokens."""
    if distance >= trained:
        return 0.0
    rest = trained - distance
    return rest * (rest + 1) / (trained * (trained + 1))


HALF = 0.5
"""A control says more than its count where its whole interval lies on one side of this."""

_CONTROLS = {
    Control.NEEDLE_ONLY: (
        "Found alone, without a haystack",
        "it does the task in {low} % of such prompts or more",
        "it does the task in {high} % of such prompts at most, so that the map says little "
        "about length",
    ),
    Control.NO_NEEDLE: (
        "Named without the needle in the text",
        "the value is known or guessed in {low} % of prompts or more, and the map shows too much",
        "a guess hits in {high} % of prompts at most",
    ),
    Control.END: (
        "Found at the end of the text",
        "length alone costs at most {lost} % of the answers",
        "it is found there in {high} % of prompts at most",
    ),
}
"""For each control: what a hit is, and what many and few of them say."""


@short
@dataclass(frozen=True, slots=True)
class Judgement:
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


def result(found: Judgement) -> str:
    """The effective length, what would settle it, and what did not fit, as short sentences."""
    if found.asked == 0:
        return f"No answers yet: nothing can be said; {_claim(found)}."
    parts = [_headline(found), *_remedy(found), *_misfits(found), *_unjudged(found)]
    if found.asked < found.planned:
        parts.append(f"Not finished: {found.asked:,} of {found.planned:,} answers so far.")
    return " ".join(parts)


def control(kind: Control, share: Share) -> str:
    """What the hits of one kind of control prompt say, and no more than their interval does.

    Where the interval lies on both sides of one half, the hits are counted and nothing is
    concluded; otherwise its end is named as the bound that it is.
    """
    if share.judged == 0:
        return "Not answered: says nothing."
    what, often, seldom = _CONTROLS[kind]
    if share.judged == 1:
        counted = f"{what}, once" if share.hits else f"Asked once: not {what[0].lower()}{what[1:]}"
    else:
        counted = f"{what}, {share.hits} of {share.judged} times"
    # Rounded outwards: a bound that is said is never tighter than the interval.
    low, high = math.floor(100 * share.low), math.ceil(100 * share.high)
    if share.low > HALF:
        return f"{counted}: {often.format(low=low, lost=100 - low)}."
    if share.high < HALF:
        return f"{counted}: {seldom.format(high=high)}."
    tried = "one trial says" if share.judged == 1 else f"{share.judged} trials say"
    return f"{counted}; {tried} no more than that."


def _headline(found: Judgement) -> str:
    claim = _claim(found)
    failing = next((c for c in found.columns if c.verdict is LengthVerdict.FAILS), None)
    if found.nothing_found_at is not None:
        return (
            f"Found nothing at {found.nothing_found_at:,} tokens, the shortest length answered, "
            f"so that no length can be measured by it; {claim}."
        )
    if found.certain is None and found.possible is None:
        if failing is None:
            return f"No answer could be judged; {claim}."
        return f"Fails already at {_counted(failing)}, the shortest length answered; {claim}."
    read = f"Reads {'no length' if found.certain is None else f'{found.certain:,} tokens'}"
    if failing is not None:
        if found.certain == found.possible:
            return f"{read} for certain and fails at {_counted(failing)}; {claim}."
        return (
            f"{read} for certain, {found.possible:,} tokens possibly, and fails at "
            f"{_counted(failing)}; {claim}."
        )
    longest = "the longest asked"
    if found.possible != found.columns[-1].length:
        longest = "the longest of which an answer was judged"
    if found.certain == found.possible:
        return f"{read} for certain, {longest}; {claim}."
    return f"{read} for certain; nothing failed up to {found.possible:,}, {longest}; {claim}."


def _counted(column: LengthSummary) -> str:
    """A length with its hits, where it has any answers."""
    share = column.pooled
    counts = f" ({share.hits:,} of {share.judged:,})" if share.judged else ""
    return f"{column.length:,} tokens{counts}"


def _remedy(found: Judgement) -> Iterable[str]:
    """What more trials would do for the first length that is not certain, when undecided."""
    blocking = next((c for c in found.columns if c.verdict is not LengthVerdict.PASSES), None)
    if (
        blocking is None
        or blocking.verdict is not LengthVerdict.UNDECIDED
        or found.nothing_found_at is not None
    ):
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
        per_cell = " per cell" if found.unit == "trial" else ""
        yield (
            f"Not enough {found.unit}s to be certain of {of_what}: about {found.more_trials:,} "
            f"more{per_cell} if it goes on so (--trials {found.enough_trials})."
        )
    elif value is not None and value <= found.bar:
        yield (
            f"At {blocking.length:,} tokens it scored {value:.1%}, not above the threshold of "
            f"{found.bar:.1%}: at this rate more trials would not make it pass."
        )
    elif value is not None:
        yield (
            f"At {blocking.length:,} tokens it scored {value:.1%}, too near to the threshold of "
            f"{found.bar:.1%} for more trials to make it pass."
        )


def _misfits(found: Judgement) -> Iterable[str]:
    for length, outcomes in found.outcomes.items():
        overflow = outcomes.get(Outcome.OVERFLOW, 0)
        if not overflow:
            continue
        if overflow == sum(outcomes.values()):
            yield f"{length:,} tokens did not fit, and cannot be read."
        else:
            yield f"At {length:,} tokens {overflow} of {sum(outcomes.values())} did not fit."


def _unjudged(found: Judgement) -> Iterable[str]:
    """How many answers of each length say nothing, by kind."""
    words = {
        Outcome.TRUNCATED: "were cut by the server before the model read them",
        Outcome.REFUSED: "were refused",
        Outcome.THINKING: "were still thinking when their tokens were used up: give more "
        "--answer-tokens",
        Outcome.EMPTY: "got an empty answer",
        Outcome.THROTTLED: "were more than the server's rate lets through, which says nothing of "
        "its window",
    }
    for length, outcomes in found.outcomes.items():
        asked = sum(outcomes.values())
        for outcome in words:
            if outcomes.get(outcome, 0):
                count = outcomes[outcome]
                yield f"At {length:,} tokens {count} of {asked} prompts {words[outcome]}."


def _claim(found: Judgement) -> str:
    """The claim, and whether any judged answer is of a prompt as long."""
    if found.claimed is None:
        return "it claims no length"
    answered = [
        c.length for c in found.columns if c.verdict is LengthVerdict.FAILS or c.pooled.judged
    ]
    longest = max(answered, default=0)
    if longest and found.claimed > longest:
        return f"the claim of {found.claimed:,} was not reached"
    return f"it claims {found.claimed:,}"
