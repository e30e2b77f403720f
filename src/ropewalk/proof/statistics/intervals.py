"""Wilson's score interval of a share, for answers that are independent of each other.

E. B. Wilson, "Probable inference, the law of succession, and statistical inference" (1927), at
95 %, two-sided.
"""

from __future__ import annotations

import math

from ropewalk.errors import UsageError
from ropewalk.proof.summary import Share

Z = 1.959964
"""The normal quantile of a two-sided 95 % interval."""


def wilson(hits: int, judged: int) -> Share:
    """`hits` of `judged` with Wilson's 95 % interval; 0 to 1 when nothing was judged.

    The ends are the two accuracies t at which (hits/judged - t)^2 = z^2 t (1 - t) / judged.
    Raises UsageError when hits is negative or larger than judged.
    """
    if not 0 <= hits <= judged:
        raise UsageError(f"{hits} hits of {judged} answers is impossible: 0 to {judged} can be.")
    if judged == 0:
        return Share(0, 0, 0.0, 1.0)
    rate = hits / judged
    spread = Z * math.sqrt(rate * (1 - rate) / judged + Z * Z / (4 * judged * judged))
    centre = rate + Z * Z / (2 * judged)
    scale = 1 + Z * Z / judged
    # Rounding must not move the two ends that are exact.
    low = 0.0 if hits == 0 else (centre - spread) / scale
    high = 1.0 if hits == judged else (centre + spread) / scale
    return Share(hits, judged, low, high)
