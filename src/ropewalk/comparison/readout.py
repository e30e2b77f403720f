"""A linear probe: how much of the position can be read off a vector by a fixed linear map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.comparison.figures import LayerProbe
from ropewalk.errors import UsageError

RIDGE = 1e-3
"""Of the features' mean variance: keeps the map finite where features repeat each other."""


def probe(layer: int, states: NDArray[Any]) -> LayerProbe:
    """States (streams, length, width) fp64 against positions 0 .. length - 1.

    The first half of the streams fits a ridge regression with an intercept, the rest score it.
    Raises UsageError for fewer than 2 streams or positions.
    """
    streams, length, width = states.shape
    if streams < 2 or length < 2:
        raise UsageError(
            f"{streams} streams of {length} positions fit and score nothing; give 2 of each or more"
        )
    half = streams // 2
    places = np.arange(length, dtype=np.float64)
    fit, score = states[:half].reshape(-1, width), states[half:].reshape(-1, width)
    mean, middle = fit.mean(0), places.mean()
    centred = fit - mean
    wanted = np.tile(places - middle, half)
    gram = centred.T @ centred
    ridge = RIDGE * max(float(np.trace(gram)) / width, np.finfo(np.float64).tiny)
    weights = np.linalg.solve(gram + ridge * np.eye(width), centred.T @ wanted)
    missed = (score - mean) @ weights + middle - np.tile(places, streams - half)
    variance = float(np.var(places))
    return LayerProbe(
        layer=layer,
        r2=1.0 - float(np.mean(missed**2)) / variance,
        error=float(np.mean(np.abs(missed))),
    )
