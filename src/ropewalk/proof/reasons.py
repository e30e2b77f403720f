"""What a schedule predicts of a length and a depth: likely reasons beside a failure, no verdicts.

- Angles that training did not show (`ropewalk.rope.diagnostics.pair_rows`).
- The similarity horizon (2405.14591): beyond it a key like the query no longer scores above a
  random one on average.
- Position frequency (2410.18745): how much of training had distances as large. Of windows of T
  tokens, all full, a share of (T - d)(T - d + 1) / (T (T + 1)) of the pairs of tokens lies at
  distance d or more; with shorter documents it is less.
- Learned positions that end, and windows beyond which no layer sees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ropewalk.errors import ScheduleError
from ropewalk.rope.diagnostics import pair_rows, similarity_horizon
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.spec import LearnedPositions, Length, PositionSpec, Sinusoidal
from ropewalk.short import short

RARE = 0.05
"""Distances that make up less than this share of training are called rare."""


@short
@dataclass(frozen=True, slots=True)
class Prediction:
    """What the schedule says of prompts of `length` tokens. Lengths in tokens.

    `unseen` of `pairs` rotary pairs turn to angles that training did not show; `horizon` is the
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
        if isinstance(group.encoding, LearnedPositions | Sinusoidal) and group.encoding.rows
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
            f"{found.unseen} of {found.pairs} rotary pairs turn to angles that {training} did "
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


def written(spec: PositionSpec, lengths: Sequence[int], trained: Length | None = None) -> str:
    """The predictions for `lengths` as a text for a run folder."""
    return json.dumps([asdict(predict(spec, length, trained)) for length in lengths])


def read(text: str) -> Mapping[int, Prediction]:
    """The predictions of a run folder, by length. Raises ValueError for what is none."""
    try:
        return {each["length"]: Prediction(**each) for each in json.loads(text)}
    except (TypeError, KeyError) as error:
        raise ValueError(f"predictions that are none: {error}") from error
