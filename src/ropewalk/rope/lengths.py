"""The trained length that everything computes with: stated, or guessed and marked as a guess.

One function, so that an audit, a proof and an extension of the same files name the same number.
"""

from __future__ import annotations

from ropewalk.rope.schedules import Linear
from ropewalk.rope.spec import Length, NoPositionSpec, PositionSpec, Recurrent, RotarySpec


def trained_length(spec: PositionSpec) -> Length:
    """The stated trained length, or the best guess with `stated` False and the reason in `source`.

    Linear scaling of every layer: claimed / factor, by arithmetic. Scaling of some layer types
    alone (Gemma 3) says nothing of the model's trained length. Otherwise the claimed length.
    """
    if spec.trained.tokens is not None:
        return spec.trained
    claimed = spec.claimed.tokens
    if claimed is None:
        return Length.unknown("no file states a trained or a claimed length")
    factor = uniform_linear_factor(spec)
    if factor is not None and factor > 1.0:
        guess = round(claimed / factor)
        if guess >= 1:
            why = f"a guess, claimed {claimed} / linear factor {factor:g}"
            return Length(guess, why, stated=False)
    return Length(claimed, "a guess, equal to the claimed length", stated=False)


def uniform_linear_factor(spec: PositionSpec) -> float | None:
    """The linear factor that every layer with position shares, or None."""
    placed = [
        g.encoding for g in spec.groups if not isinstance(g.encoding, NoPositionSpec | Recurrent)
    ]
    factors = {
        e.scaling.factor if isinstance(e, RotarySpec) and isinstance(e.scaling, Linear) else None
        for e in placed
    }
    return factors.pop() if len(factors) == 1 else None
