"""Loss by position: what each token of a long text costs, and what distant text is worth.

All losses are natural logarithms (nats), every token weighs the same, and each evaluation states
its window and stride: a perplexity without them says nothing. A window is read from position 0;
the tokens before it are forgotten.

- Full: every token sees all before it.
- Sliding: windows of W tokens that move by S; each scores the S tokens that are new, which see at
  least W - S tokens before them.
- Non-overlapping: S = W - 1, one token of overlap so that every token is scored. The first tokens
  of each window see almost nothing, so that this number is higher, and falls with W even for a
  model that uses no distant text (O. Press, N. A. Smith, M. Lewis, 2108.12409, appendix B).

A perplexity that does not rise with length is no proof that distant text is used. What is: the
loss of the same token with the whole text before it against a cut one, and the tokens for which
that decides (L. Fang et al., "What is wrong with perplexity for long-context language modeling?",
2410.23771: gain above 2 nats, and loss below 2 with the whole text).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ropewalk.errors import LengthError
from ropewalk.short import short

KEY_GAIN = 2.0
"""Nats that the whole text must save on a token for the token to be a key token."""
KEY_LOSS = 2.0
"""Nats that a key token may cost at most, with the whole text before it."""
CHUNK = 256
"""Tokens read in one call: the logits of a chunk are all that is ever held."""


@short
@dataclass(frozen=True, slots=True)
class Bucket:
    """The mean loss of the tokens at positions `start` to `end` (exclusive), from 0."""

    start: int
    end: int
    tokens: int
    mean: float


@short
@dataclass(frozen=True, slots=True)
class Evaluation:
    """One way to read a text. `losses` are those of tokens 1 and on; token 0 has none.

    `window` and `stride` are tokens; both are the text's length for the whole of it at once.
    """

    name: str
    window: int
    stride: int
    losses: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean loss of a token."""
        return math.fsum(self.losses) / len(self.losses)

    @property
    def perplexity(self) -> float:
        """e to the mean loss."""
        return math.exp(self.mean)

    def buckets(self) -> tuple[Bucket, ...]:
        """Means by position: 1 to 63, and then a bucket for every doubling."""
        edges = [1, 64]
        while edges[-1] <= len(self.losses):
            edges.append(2 * edges[-1])
        found = []
        for start, end in pairwise(edges):
            part = self.losses[start - 1 : end - 1]
            if part:
                found.append(Bucket(start, start + len(part), len(part), _mean(part)))
        return tuple(found)


@short
@dataclass(frozen=True, slots=True)
class ContextGain:
    """What the whole text saves on a token over the cut one, in nats.

    Of the tokens that have more than the cut text before them. `key_perplexity` is that of the
    key tokens with the whole text; None without any.
    """

    tokens: int
    mean: float
    key_tokens: int
    key_perplexity: float | None


@short
@dataclass(frozen=True, slots=True)
class Copy:
    """A passage and the same one `distance` tokens on: mean losses, each first token apart."""

    distance: int
    first: float
    again: float


@short
@dataclass(frozen=True, slots=True)
class Shift:
    """The mean loss of one passage whose positions begin at `offset`, nothing before it."""

    offset: int
    mean: float


class Reader:
    """Reads tokens into a causal model of transformers, and says what each one cost.

    `set_length(tokens)` is called before each reading, so that schedules which depend on the
    length can be put in place. `chunk` tokens are read a call.
    """

    def __init__(
        self,
        model: Any,
        set_length: Callable[[int], None] = lambda _: None,
        chunk: int = CHUNK,
    ) -> None:
        self._model = model
        self._set_length = set_length
        self._chunk = chunk
        self._named = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in self._named else "past_key_values"

    @property
    def takes_positions(self) -> bool:
        """Whether the model can be told where a text begins."""
        return "position_ids" in self._named

    def losses(self, ids: Sequence[int], first: int = 1, offset: int = 0) -> list[float]:
        """The loss of ids[first:], each token given all of `ids` before it.

        Positions begin at `offset`. Raises LengthError when nothing is to be scored, or `first`
        is 0: the first token has nothing before it.
        """
        import torch

        if not 1 <= first < len(ids):
            raise LengthError(
                f"{len(ids)} tokens from number {first} on leave no loss: give at least 2 tokens, "
                "and score from the second on"
            )
        self._set_length(offset + len(ids))
        found: list[float] = []
        cache = None
        # The last token is only predicted, never read.
        for start in range(0, len(ids) - 1, self._chunk):
            end = min(start + self._chunk, len(ids) - 1)
            given = torch.tensor([list(ids[start:end])], device=self._model.device)
            extra: dict[str, Any] = {}
            if offset:
                places = torch.arange(offset + start, offset + end, device=self._model.device)
                extra["position_ids"] = places[None]
            if end < first and "logits_to_keep" in self._named:
                extra["logits_to_keep"] = 1
            with torch.inference_mode():
                out = self._model(
                    input_ids=given, use_cache=True, **{self._cache_name: cache}, **extra
                )
                cache = out[self._cache_name]
                if end >= first:
                    # Row i predicts token start + i + 1.
                    skipped = max(0, first - 1 - start)
                    wanted = torch.tensor(list(ids[start + 1 + skipped : end + 1]))
                    scores = out.logits[0, skipped:].float()
                    lost = torch.nn.functional.cross_entropy(
                        scores, wanted.to(scores.device), reduction="none"
                    )
                    found += lost.tolist()
        return found


def windows(count: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Start, end and first scored token of every window over `count` tokens.

    Every token but the first is scored once. Raises LengthError unless
    1 <= stride < window, and for fewer than 2 tokens.
    """
    if count < 2:
        raise LengthError(f"a text of {count} tokens has no loss; give at least 2 tokens")
    if not 1 <= stride < window:
        raise LengthError(
            f"a stride of {stride} with a window of {window} tokens is impossible: the stride is "
            "at least 1 and below the window"
        )
    end = min(window, count)
    yield 0, end, 1
    while end < count:
        scored, end = end, min(end + stride, count)
        yield max(0, end - window), end, scored


def evaluate(reader: Reader, ids: Sequence[int], name: str, window: int, stride: int) -> Evaluation:
    """Read `ids` in windows. Raises as `windows`."""
    found: list[float] = []
    for start, end, scored in windows(len(ids), window, stride):
        found += reader.losses(ids[start:end], scored - start)
    return Evaluation(name, window, stride, tuple(found))


def whole(reader: Reader, ids: Sequence[int]) -> Evaluation:
    """Read `ids` at once: every token sees all before it."""
    return Evaluation("full", len(ids), len(ids), tuple(reader.losses(ids)))


def context_gain(full: Evaluation, cut: Evaluation) -> ContextGain | None:
    """What the whole text is worth over the cut one; None where nothing was cut."""
    pairs = list(zip(full.losses, cut.losses, strict=True))[cut.window - 1 :]
    if not pairs:
        return None
    gains = [short - long for long, short in pairs]
    keys = [long for long, short in pairs if short - long > KEY_GAIN and long < KEY_LOSS]
    return ContextGain(
        tokens=len(pairs),
        mean=math.fsum(gains) / len(gains),
        key_tokens=len(keys),
        key_perplexity=math.exp(math.fsum(keys) / len(keys)) if keys else None,
    )


def copy_probe(
    reader: Reader, passage: Sequence[int], filler: Sequence[int], distances: Sequence[int]
) -> tuple[Copy, ...]:
    """Read passage, filler, passage again; a distance is from one beginning to the other.

    A model that reads that far repeats the passage at almost no cost. Raises LengthError for a
    distance below the passage's length, or beyond passage and filler together.
    """
    size = len(passage)
    found = []
    for distance in distances:
        if not size <= distance <= size + len(filler):
            raise LengthError(
                f"a distance of {distance} tokens is impossible with a passage of {size} and a "
                f"filler of {len(filler)}: {size} to {size + len(filler)} can be"
            )
        ids = [*passage, *filler[: distance - size], *passage]
        lost = reader.losses(ids)
        # The first token of the copy cannot be known to be one.
        first, again = lost[: size - 1], lost[distance:]
        found.append(Copy(distance, _mean(first), _mean(again)))
    return tuple(found)


def shift_probe(
    reader: Reader, passage: Sequence[int], offsets: Sequence[int]
) -> tuple[Shift, ...]:
    """The same passage at other positions, with nothing before it.

    Rotary scores depend on differences of position alone: the curve must be flat, and a bent one
    is a fault of the implementation or of its precision. It says nothing of usable length.
    """
    return tuple(Shift(offset, _mean(reader.losses(passage, offset=offset))) for offset in offsets)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
