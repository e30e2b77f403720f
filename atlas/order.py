"""The rule by which a class deals kinds to its layers, from what it deals at many counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any


def dealt(words: Mapping[int, Sequence[str]]) -> dict[str, Any] | None:
    """One of each `period` layers is `rare`, the first or the last; None where no such rule fits.

    `words` are the kinds of all layers, by the number of layers.
    """
    kinds = sorted({word for listed in words.values() for word in listed})
    if len(kinds) != 2:
        return None
    for period, first, end, (rare, common) in product(
        range(2, 13), (False, True), (False, True), (kinds, kinds[::-1])
    ):
        at = 0 if first else period - 1
        if all(
            listed
            == [
                rare if i % period == at or (end and i == count - 1) else common
                for i in range(count)
            ]
            for count, listed in words.items()
        ):
            return {
                "kind": "every",
                "period": period,
                "first": first,
                "rare": rare,
                "common": common,
                "to_the_end": end,
            }
    return None
