"""The grid of a proof where a user leaves it open: lengths by the claim, trials by their tokens."""

from __future__ import annotations

from ropewalk.errors import LengthError
from ropewalk.proof.cells import Sharing
from ropewalk.proof.plan import Plan, make_plan
from ropewalk.proof.settings import MOST_DOCUMENTS, ProofSettings
from ropewalk.rope.spec import LearnedPositions, PositionSpec


def default_lengths(claimed: int | None, *, beyond: bool = True) -> tuple[int, ...]:
    """1,024 and its doublings below the claimed length, that length, and half as much again.

    There the number on the box is tested. Not `beyond` for a model without positions there.
    """
    if claimed is None:
        raise LengthError("this model claims no length; say which to test, like --lengths 1k,4k")
    lengths = []
    step = 1024
    while step < claimed:
        lengths.append(step)
        step *= 2
    return (*lengths, claimed, *([claimed * 3 // 2] if beyond else []))


def lengths_of(spec: PositionSpec) -> tuple[int, ...]:
    """The lengths that are asked where none are named. Raises LengthError without a claim."""
    learned = any(isinstance(group.encoding, LearnedPositions) for group in spec.groups)
    return default_lengths(spec.claimed.tokens, beyond=not learned)


def planned(
    settings: ProofSettings,
    lengths: tuple[int, ...],
    sharing: Sharing,
    trials: int | None = None,
    most: int = MOST_DOCUMENTS,
) -> Plan:
    """The plan of a proof whose prompts are shared in this way. Raises LengthError.

    `trials` of the longest length, None: as the settings have it; `most` of a shorter one.
    """
    trials = settings.trials_of(sharing) if trials is None else trials
    more = settings.more_trials(lengths, sharing, trials, most)
    return make_plan(lengths, settings.depths, trials, settings.controls, settings.all_tasks, more)
