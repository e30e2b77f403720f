"""How a server counts: its tokens for each of ours, and what a reply's count says of a cut.

What it adds to every prompt, and its tokens for each of ours, is found by three probes (nearly
empty, and two lengths) from `usage.prompt_tokens`. Afterwards the count of every reply is compared
with what it must be. A count that is too low is a reason to look (`ropewalk.proof.endpoint.cuts`),
and no proof: servers leave out what was cached, or count as they please.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.errors import EndpointError
from ropewalk.short import short

PROBES = (1, 150, 450)
"""About how many of our tokens the text of each probe has."""

_EXACT = 0.005
"""How far the ratio may lie from 1 before the two tokenizers are not the same."""
_SURE = 4
"""Tokens by which the same tokenizer may differ: special ones, and merges at a seam."""
_VAGUE = 24
_VAGUE_SHARE = 0.06


@short
@dataclass(frozen=True, slots=True)
class Counting:
    """server tokens = overhead + ratio * our tokens.

    `exact`: ours are the server's own. `told`: the server says how many it read; without that
    nothing is known and a cut cannot be seen. `cut_at`: what it counted for a probe that it cut.
    `apart`: whether its counts leave out what came from its cache; None where that was not seen.
    """

    overhead: float = 0.0
    ratio: float = 1.0
    exact: bool = True
    told: bool = True
    cut_at: int | None = None
    apart: bool | None = None

    def expected(self, own: int) -> int:
        """What the server should count for a prompt of `own` of our tokens."""
        return round(self.overhead + self.ratio * own)

    def own(self, length: int) -> int:
        """How many of our tokens make `length` of the server's, rounded down; at least 0."""
        return max(0, math.floor((length - self.overhead) / self.ratio))

    def slack(self, expected: int) -> int:
        """By how many tokens a count may differ from what is due."""
        return _SURE if self.exact else math.ceil(_VAGUE + _VAGUE_SHARE * expected)

    def least(self, own: int) -> int:
        """The fewest tokens that the server can have counted if it read all of the prompt."""
        expected = self.expected(own)
        return expected - self.slack(expected)

    def whole(self, own: int, counted: int | None, cached: int | None) -> int | None:
        """A reply's count with what came from a cache, where the server leaves that out.

        OpenAI's count holds it. Where both together are what is due, they are the count, if that
        was seen before or can be told to the token.
        """
        if counted is None or cached is None or counted >= self.least(own):
            return counted
        if not (self.exact if self.apart is None else self.apart):
            return counted
        expected = self.expected(own)
        both = counted + cached
        return both if abs(both - expected) <= self.slack(expected) else counted

    def seems_cut(self, own: int, counted: int | None, cached: int | None) -> bool:
        """Whether a reply's count says that the server read less than it was sent."""
        whole = self.whole(own, counted, cached)
        return whole is not None and self.told and whole < self.least(own)

    def words(self) -> str:
        """How lengths were counted, for a report."""
        if not self.told:
            return "not told by the server: lengths are ours, and a cut prompt would not be seen"
        added = f"{self.overhead:+.0f} a prompt"
        if self.exact:
            return f"exact ({added})"
        return f"estimated: {self.ratio:.3f} of the server's for each of ours, {added}"


class UnlikelyCountError(EndpointError):
    """A server's counts of the probes cannot be explained by any tokenizer."""


def calibrate(
    own: Sequence[int], counted: Sequence[int | None], *, exact: bool, url: str
) -> Counting:
    """The counting that explains probes of `own` tokens, two or three, that the server counted.

    `exact` says that our tokenizer is meant to be the server's. Raises UnlikelyCountError when it
    is and cannot be, and for counts that hardly grow.
    """
    known = [count for count in counted if count is not None]
    if len(known) < len(own):
        return Counting(exact=exact, told=False)
    ratio = (known[1] - known[0]) / (own[1] - own[0])
    if exact and abs(ratio - 1) <= _EXACT + 1.5 / (own[1] - own[0]):
        found = Counting(float(known[1] - own[1]))
    elif exact:
        raise UnlikelyCountError(
            f"{url} counts {known[1]} tokens where the tokenizer counts {own[1]}: it is not the "
            "server's, or the server cuts prompts of that length; give its own as --tokenizer"
        )
    elif ratio < 0.1:
        raise UnlikelyCountError(
            f"{url} counts {known[1]} tokens for a text of about {own[1]}: it cuts prompts "
            "already at that length, so nothing can be proved there"
        )
    else:
        found = Counting(known[0] - ratio * own[0], ratio, exact=False)
    if len(known) < 3:
        return found
    if known[2] < found.least(own[2]):
        return Counting(found.overhead, found.ratio, found.exact, cut_at=known[2])
    if not found.exact:
        # The longer the probe, the less its ends matter.
        ratio = (known[2] - known[0]) / (own[2] - own[0])
        found = Counting(known[0] - ratio * own[0], ratio, exact=False)
    return found
