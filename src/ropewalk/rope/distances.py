"""How often training shows each relative distance, from the lengths of its documents.

A model reads only as far as it was trained to: its effective length follows how often a distance
was seen, and not the window (2410.18745, section 2). All of it can be counted before training,
on any machine. Lengths and distances are in tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from ropewalk.errors import LengthError
from ropewalk.short import short

Packing = Literal["isolated", "joined"]
"""How documents share a training row. isolated: no token sees another document (masked, or one
document a row). joined: one stream cut into rows, attention crosses from document to document."""


@short
@dataclass(frozen=True, slots=True)
class DistanceFrequency:
    """How often each relative distance occurs: `counts[i]` pairs of tokens i apart.

    f(i) = sum over sequences s of max(|s| - i, 0), for i = 0 .. row - 1.
    """

    counts: tuple[int, ...]

    def share(self, first: int, last: int | None = None) -> float:
        """The part of all pairs whose distance is from `first` to `last`, both included."""
        total = sum(self.counts)
        end = len(self.counts) if last is None else last + 1
        return sum(self.counts[max(first, 0) : max(end, 0)]) / total if total else 0.0

    def furthest(self, least: int) -> int | None:
        """The longest distance seen at least `least` times; None when there is none."""
        return next((i for i in reversed(range(len(self.counts))) if self.counts[i] >= least), None)


def distance_frequency(
    documents: Mapping[int, int], row: int, packing: Packing
) -> DistanceFrequency:
    """f(i) for documents given as {length: how many}, in training rows of `row` tokens.

    isolated: a document longer than a row is cut into rows and a rest, each by itself. joined:
    all tokens make full rows, and a last one of what is left. Boundary tokens are not added.

    Raises LengthError for lengths below 1, negative counts, or an unknown packing.
    """
    if row < 1:
        raise LengthError(f"the row is {row} tokens; it must be at least 1")
    for length, count in documents.items():
        if length < 1 or count < 0:
            raise LengthError(
                f"{count} documents of {length} tokens are given; lengths are at least 1 and "
                "counts at least 0"
            )
    match packing:
        case "isolated":
            sequences = _cut(documents, row)
        case "joined":
            total = sum(length * count for length, count in documents.items())
            sequences = _cut({total: 1} if total else {}, row)
        case _:
            raise LengthError(f"the packing is {packing!r}; it is 'isolated' or 'joined'")
    # Of length above i there are n(i) sequences, and f(i) is the sum of n(j) for all j >= i.
    ends = (sequences[length] for length in range(row, 0, -1))
    longer = accumulate(ends)
    return DistanceFrequency(tuple(accumulate(longer))[::-1])


def _cut(documents: Mapping[int, int], row: int) -> Counter[int]:
    """Sequences by length after every document is cut into rows and a rest."""
    sequences: Counter[int] = Counter()
    for length, count in documents.items():
        sequences[row] += count * (length // row)
        if rest := length % row:
            sequences[rest] += count
    return sequences
