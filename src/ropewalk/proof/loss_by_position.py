"""Loss by position: what each token of a long text costs, and what distant text is worth.

All losses are natural logarithms (nats), every token weighs the same, and each evaluation states
its window and stride: a perplexity without them says nothing. A window is read from position 0;
the tokens before it are forgotten.

Whatever is read begins as the model was trained: with its opening, the tokens that its tokenizer
puts before a text (a BOS, mostly; for many models nothing). Without it a model that was never
shown such a beginning has nothing to rest its attention on, and costs more for that reason alone.
The opening takes its places of the window, and no token of it is scored.

- Full: every token sees all before it.
- Sliding: windows of W tokens that move by S; each scores the S tokens that are new, which see at
  least W - S tokens before them.
- Non-overlapping: S is the most that a window can score, W less its opening; without one W - 1,
  a token of overlap so that every token is scored. The first tokens of each window see almost
  nothing, so that this number is higher, and falls with W even for a model that uses no distant
  text (O. Press, N. A. Smith, M. Lewis, 2108.12409, appendix B).

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
    """One way to read a text. `losses` are those of the tokens at positions `first` and on.

    Positions count the opening: its tokens have no loss, and of a text without one the first
    token has none. `window` and `stride` are tokens, the opening's among those of the window;
    both are the whole length, opening and text, for all of it at once.
    """

    name: str
    window: int
    stride: int
    losses: tuple[float, ...]
    first: int = 1

    @property
    def mean(self) -> float:
        """The mean loss of a token."""
        return math.fsum(self.losses) / len(self.losses)

    @property
    def perplexity(self) -> float:
        """e to the mean loss."""
        return math.exp(self.mean)

    def buckets(self) -> tuple[Bucket, ...]:
        """Means by position: up to 63, and then a bucket for every doubling."""
        edges = [self.first, max(64, 2 * self.first)]
        while edges[-1] < self.first + len(self.losses):
            edges.append(2 * edges[-1])
        found = []
        for start, end in pairwise(edges):
            part = self.losses[start - self.first : end - self.first]
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

    `opening` is put before whatever is read: the ids that the model's tokenizer puts before a
    text, none for most tokenizers without a BOS. Ids that are handed over are those of the text
    alone. `set_length(tokens)` is called before each reading, so that schedules which depend on
    the length can be put in place. `chunk` tokens are read a call.
    """

    def __init__(
        self,
        model: Any,
        set_length: Callable[[int], None] = lambda _: None,
        chunk: int = CHUNK,
        *,
        opening: Sequence[int] = (),
    ) -> None:
        self._model = model
        self.opening = tuple(opening)
        self._set_length = set_length
        self._chunk = chunk
        self._named = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in self._named else "past_key_values"

    @property
    def takes_positions(self) -> bool:
        """Whether the model can be told where a text begins."""
        return "position_ids" in self._named

    @property
    def first(self) -> int:
        """The first token of a text that has a loss: the second where nothing stands before it."""
        return 0 if self.opening else 1

    def losses(self, ids: Sequence[int], first: int | None = None, offset: int = 0) -> list[float]:
        """The loss of ids[first:], each token given the opening and all of `ids` before it.

        `first` None: of every token that has one. Positions begin at `offset`, with the opening.
        Raises LengthError when nothing is to be scored, or when nothing stands before `first`.
        """
        import torch

        first = self.first if first is None else first
        if not self.first <= first < len(ids):
            raise LengthError(
                f"{len(ids)} tokens from number {first} on leave no loss: give at least "
                f"{self.first + 1} token{'s' * self.first}, and score from number {self.first} on"
            )
        ids = [*self.opening, *ids]
        first += len(self.opening)
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


def most_stride(window: int, opening: int) -> int:
    """The tokens that a window can score at most: all but its opening, or but its first token."""
    return window - max(1, opening)


def windows(
    count: int, window: int, stride: int, opening: int = 0
) -> Iterator[tuple[int, int, int]]:
    """Start, end and first scored token of every window over a text of `count` tokens.

    Each window holds `opening` tokens before those of the text, `window` in all. Every token of
    the text is scored once, but for the first one where nothing stands before it. Raises
    LengthError for a stride that is below 1 or beyond `most_stride`, and for a text without a
    token to score.
    """
    first = 0 if opening else 1
    if count <= first:
        raise LengthError(
            f"a text of {count} tokens has no loss; give at least {first + 1} token{'s' * first}"
        )
    check_stride(window, stride, opening)
    room = window - opening
    end = min(room, count)
    yield 0, end, first
    while end < count:
        scored, end = end, min(end + stride, count)
        yield max(0, end - room), end, scored


def check_stride(window: int, stride: int, opening: int) -> None:
    """Raise LengthError for a stride that leaves tokens unscored, or never moves."""
    most = most_stride(window, opening)
    if most < 1:
        raise LengthError(
            f"a window of {window} tokens holds nothing but the {opening} that begin it; give a "
            f"window of {opening + 1} or more"
        )
    if not 1 <= stride <= most:
        held = "one token" if opening < 2 else f"{opening} tokens"
        raise LengthError(
            f"a stride of {stride} with a window of {window} tokens is impossible: the stride is "
            f"at least 1 and below the window by {held} or more, so 1 to {most}"
        )


def evaluate(reader: Reader, ids: Sequence[int], name: str, window: int, stride: int) -> Evaluation:
    """Read `ids` in windows, each behind the reader's opening. Raises as `windows`."""
    found: list[float] = []
    opening = len(reader.opening)
    for start, end, scored in windows(len(ids), window, stride, opening):
        found += reader.losses(ids[start:end], scored - start)
    return Evaluation(name, window, stride, tuple(found), max(1, opening))


def whole(reader: Reader, ids: Sequence[int]) -> Evaluation:
    """Read `ids` at once, behind the reader's opening: every token sees all before it."""
    opening = len(reader.opening)
    size = opening + len(ids)
    return Evaluation("full", size, size, tuple(reader.losses(ids)), max(1, opening))


def context_gain(full: Evaluation, cut: Evaluation) -> ContextGain | None:
    """What the whole text is worth over the cut one; None where nothing was cut."""
    pairs = list(zip(full.losses, cut.losses, strict=True))[cut.window - cut.first :]
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

    The opening stands before the first passage alone.
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
        lost = reader.losses(ids, 1)
        # The first token of the copy cannot be known to be one.
        first, again = lost[: size - 1], lost[distance:]
        found.append(Copy(distance, _mean(first), _mean(again)))
    return tuple(found)


def shift_probe(
    reader: Reader, passage: Sequence[int], offsets: Sequence[int]
) -> tuple[Shift, ...]:
    """The same passage at other positions, with nothing before it but the opening.

    Rotary scores depend on differences of position alone: the curve must be flat, and a bent one
    is a fault of the implementation or of its precision. It says nothing of usable length.
    """
    return tuple(Shift(offset, _mean(reader.losses(passage, offset=offset))) for offset in offsets)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
