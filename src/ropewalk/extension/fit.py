"""Whether a model can be stretched at all, before anything is loaded; each refusal with its reason.

A factor that is in the files already is never stacked upon: what two rules make of one another no
engine computes, and the second was meant for the frequencies that the first has changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.errors import LengthError, ScheduleError
from ropewalk.extension.methods import trained_length
from ropewalk.rope.schedules import Proportional, Scaling, Unscaled
from ropewalk.rope.spec import (
    AlibiSpec,
    ContentBias,
    Encoding,
    IncompleteRotary,
    LearnedPositions,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    SinusoidalSpec,
)


def check(spec: PositionSpec, target: int) -> None:
    """Raise unless `spec` is an unscaled rotary model and `target` is longer than it was trained.

    ScheduleError for a model that is scaled already or rotates nothing, LengthError for the target.
    """
    _rotary(spec)
    _unscaled(spec)
    trained = trained_length(spec)
    if target <= trained:
        raise LengthError(
            f"--to {target} is no longer than the {trained} tokens that this model was trained "
            "on; nothing has to change for it. Give a longer length, or measure it as it is with "
            "ropewalk prove"
        )


def _rotary(spec: PositionSpec) -> None:
    if any(spec.rotary_groups()):
        return
    for group in spec.groups:
        if isinstance(group.encoding, IncompleteRotary):
            raise ScheduleError(
                f"the files leave out {' and '.join(group.encoding.missing)}, so that nothing says "
                "what is to be stretched; complete the configuration first"
            )
    reasons = sorted({_reason(group.encoding) for group in spec.groups})
    raise ScheduleError(
        f"this {spec.model_type} model has no rotary layers, and only those can be stretched: "
        f"{'; '.join(reasons) or 'it has no layers that know of position'}"
    )


def _reason(encoding: Encoding) -> str:
    """Why an encoding cannot be stretched, and what can be done instead."""
    match encoding:
        case LearnedPositions(rows=rows):
            many = "its" if rows is None else f"only {rows}"
            return (
                f"a learned table has {many} rows, and the ones beyond were never trained; a "
                "longer one has to be trained"
            )
        case AlibiSpec():
            return (
                "ALiBi's penalty is defined at every distance, so there is no factor to set; "
                "measure with ropewalk prove how far it reads"
            )
        case SinusoidalSpec():
            return "sinusoidal positions are defined at every place, and scaling them is untried"
        case RelativeBuckets(max_distance=most):
            return f"relative buckets treat all distances beyond {most} alike, at any length"
        case ContentBias(extent=extent):
            return f"its relative bias is trained up to distance {extent}, and 0 beyond"
        case NoPositionSpec():
            return "its attention is told nothing of position, so there is nothing to stretch"
        case Recurrent(kind=kind):
            return f"{kind} layers carry a state and no positions"
        case _:
            return f"{type(encoding).__name__} is not known to stretch"


def _unscaled(spec: PositionSpec) -> None:
    """Refuse a model with a factor in it."""
    present = sorted({_told(scaling) for scaling in _scalings(spec)})
    if present:
        raise ScheduleError(
            f"this model is scaled already: {' and '.join(present)}, to {spec.claimed.tokens} "
            f"tokens from {_known(spec.trained.tokens)}. A second schedule would stand on the "
            "first, which no engine computes; begin from the checkpoint as it was before, or take "
            "the factor out of a copy with ropewalk convert --rope none"
        )
    claimed, trained = spec.claimed.tokens, spec.trained.tokens
    if trained is not None and claimed is not None and claimed > trained:
        bases = " and ".join(
            sorted({f"{rotary.rope_theta:g}" for _, rotary in spec.rotary_groups()})
        )
        raise ScheduleError(
            f"this model claims {claimed} tokens ({spec.claimed.source}) and was trained on "
            f"{trained} ({spec.trained.source}): it has been stretched already, by its base of "
            f"{bases}. Begin from the checkpoint as it was before"
        )


def _scalings(spec: PositionSpec) -> Iterator[Scaling]:
    for _, rotary in spec.rotary_groups():
        if isinstance(rotary.scaling, Unscaled):
            continue
        if isinstance(rotary.scaling, Proportional) and rotary.scaling.factor == 1.0:
            raise ScheduleError(
                "this model rotates only a share of its pairs (proportional), which is its "
                "architecture and cannot be written together with another schedule"
            )
        yield rotary.scaling


def _told(scaling: Scaling) -> str:
    factor = getattr(scaling, "factor", None)
    return scaling.name if factor is None else f"{scaling.name} with a factor of {factor:g}"


def _known(tokens: int | None) -> str:
    return "a length it does not state" if tokens is None else str(tokens)
