"""How often training on packed rows sees each distance between two tokens.

f(i) is the number of pairs of tokens that stand i apart in one sequence, over all sequences:
the sum of max(length - i, 0) (Why Does the Effective Context Length of LLMs Fall Short?, arXiv
2410.18745, section 2). A distance that is hardly ever trained is hardly ever learned, whatever the
window says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ropewalk.errors import UsageError
from ropewalk.short import short


@short
@dataclass(frozen=True)
class Distances:
    """`counts[i]`: pairs of tokens i apart, i from 0 (each token with itself) up to the longest.

    int64; the sum over a terabyte of tokens at a million apart still fits.
    """

    counts: npt.NDArray[np.int64]

    def at(self, distance: int) -> int:
        """f(distance); 0 beyond the longest sequence. Raises UsageError below 0."""
        if distance < 0:
            raise UsageError(f"a distance of {distance} is impossible: it is 0 or more")
        return int(self.counts[distance]) if distance < len(self.counts) else 0

    def share(self, distance: int) -> float:
        """The share of all pairs of different tokens that stand at most `distance` apart."""
        pairs = int(self.counts[1:].sum())
        return float(self.counts[1 : distance + 1].sum() / pairs) if pairs else 0.0


def distances(seq_lens: Mapping[int, int]) -> Distances:
    """f(i) for `seq_lens[length]` sequences of each length.

    What counts as a sequence depends on the mask: with one document at a time the pieces, without
    a mask the whole rows. Raises UsageError for impossible lengths or counts.
    """
    for length, count in seq_lens.items():
        if length < 1 or count < 0:
            raise UsageError(f"{count} sequences of {length} tokens are impossible")
    longest = max(seq_lens, default=0)
    starting = np.zeros(longest + 1, dtype=np.int64)
    for length, count in seq_lens.items():
        # Pairs i apart: one fewer for each step of i, down to one at length - 1.
        starting[length - 1] += count
    if longest == 0:
        return Distances(np.zeros(1, dtype=np.int64))
    # f(i) - f(i + 1) is the number of sequences longer than i.
    longer = np.cumsum(starting[::-1])[::-1]
    return Distances(np.cumsum(longer[::-1])[::-1][:longest])
