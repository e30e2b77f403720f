"""Haystack sentences of a wanted number of tokens, and hidden ones among them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from ropewalk.errors import LengthError
from ropewalk.proof.haystack import Count, Haystack
from ropewalk.proof.tasks.base import Hidden

SHORTEST_FILLER, LONGEST_FILLER = 3, 30
"""Between these a haystack has, or can cut, a sentence of nearly every number of tokens."""


def fill(haystack: Haystack, room: int, count: Count, length: int) -> list[str]:
    """Sentences of `room` tokens in all, as near as single counts can tell."""
    body: list[str] = []
    sizes: list[int] = []
    total = 0
    for sentence in haystack.sentences():
        size = count(sentence)
        if total + size > room:
            break
        body.append(sentence)
        sizes.append(size)
        total += size
    else:
        if total < room:
            raise LengthError(
                f"the haystack holds {total} tokens of sentences; a length of {length} needs "
                f"{room}: give more text, or shorter lengths"
            )
    while body and 0 < room - total < SHORTEST_FILLER:
        body.pop()
        total -= sizes.pop()
    body.extend(pieces(haystack, room - total, count))
    return body


def pieces(haystack: Haystack, tokens: int, count: Count) -> list[str]:
    """One or more sentences of `tokens` tokens together; fewer when none can be found."""
    found: list[str] = []
    while tokens >= SHORTEST_FILLER:
        first = tokens if tokens <= LONGEST_FILLER else min(tokens - SHORTEST_FILLER, 18)
        # A text may have no piece of some size, but two that come to the same.
        sizes = [first, *(n for n in range(first - SHORTEST_FILLER, SHORTEST_FILLER - 1, -1))]
        for size in sizes:
            piece = haystack.filler(size, count)
            if piece is not None:
                found.append(piece)
                tokens -= size
                break
        else:
            break
    return found


def place(
    body: Sequence[str], hidden: Sequence[Hidden], depth: float, count: Count
) -> tuple[list[str], int]:
    """The sentences with the hidden ones among them, and the index of the one at the depth.

    Each goes to the sentence boundary nearest to its share of the tokens, on either side; those
    of one boundary stand as they do in `hidden`.
    """
    edges = [0, *accumulate(count(sentence) for sentence in body)]
    spots: dict[int, list[Hidden]] = {}
    for each in hidden:
        share = depth if each.share is None else each.share
        spots.setdefault(nearest(edges, share * edges[-1]), []).append(each)
    laid: list[str] = []
    index = 0
    for i in range(len(edges)):
        for each in spots.get(i, ()):
            if each.share is None:
                index = len(laid)
            laid.append(each.sentence)
        laid.extend(body[i : i + 1])
    return laid, index


def nearest(edges: Sequence[int], wanted: float) -> int:
    """The index of the edge nearest to a place; of two as near, the first. `edges` ascend."""
    right = min(bisect_left(edges, wanted), len(edges) - 1)
    left = max(0, right - 1)
    return left if wanted - edges[left] <= edges[right] - wanted else right
