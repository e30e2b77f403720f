"""What short texts cost before and after: a longer context must not be paid for with short ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.errors import LengthError
from ropewalk.models.rotary_tables import install
from ropewalk.proof.loss_by_position import Reader, evaluate, most_stride
from ropewalk.proof.loss_run import generated, read_text
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short

WINDOW = 512
"""Tokens of a window of short text, at most; each token is scored once."""
TOKENS = 4096
"""Tokens that are read at most."""
LEAST = 64


@short
@dataclass(frozen=True, slots=True)
class ShortText:
    """Held-out text: `ids` are read in windows of `window` tokens. `name` says what it is.

    Each window begins with `opening`, what the tokenizer puts before a text; `begins` spells it.
    """

    name: str
    ids: tuple[int, ...]
    window: int
    opening: tuple[int, ...] = ()
    begins: str = ""

    @classmethod
    def of(
        cls, tokenizer: Any, path: Path | None, within: int | None, rows: int | None = None
    ) -> ShortText:
        """The user's file, or generated sentences, in windows `within` what the model can read.

        `rows` are those of the model's table. Raises UsageError for a file that cannot be read,
        LengthError for a text too short, RowError for a token without a row.
        """
        tokens = Tokens(tokenizer, rows)
        opening = tokens.opening
        begins = " ".join(tokens.pieces(opening))
        window = min(WINDOW, within or WINDOW)
        if path is None:
            held = tuple(generated(tokens, TOKENS, "gate"))
            return cls("generated sentences", held, window, opening, begins)
        ids = tokens.encode(read_text(path), special=False, where=str(path))[:TOKENS]
        if len(ids) < LEAST:
            raise LengthError(
                f"{path} has {len(ids)} tokens, too few to say anything: {LEAST} or more are needed"
            )
        window = min(window, len(opening) + len(ids))
        return cls(str(path), tuple(ids), window, opening, begins)

    def losses(self, model: Any, spec: PositionSpec) -> tuple[float, ...]:
        """The loss of every token that has one, in nats. `model` is in eval mode."""
        reader = Reader(model, lambda length: install(model, spec, length), opening=self.opening)
        return evaluate(reader, self.ids, "gate", self.window, self.scored).losses

    @property
    def scored(self) -> int:
        """Tokens that a window scores."""
        return most_stride(self.window, len(self.opening))


@short
@dataclass(frozen=True, slots=True)
class Gate:
    """The mean losses of the same tokens before and after, and what was allowed.

    `most` is the share that the loss may rise by, None where nothing was asked. `error` is the
    standard error of `change`, over windows. `begins` spells what each window begins with, ""
    where the tokenizer puts nothing before a text.
    """

    text: str
    window: int
    tokens: int
    before: float
    after: float
    error: float
    most: float | None
    begins: str = ""

    @classmethod
    def of(
        cls, text: ShortText, before: Sequence[float], after: Sequence[float], most: float | None
    ) -> Gate:
        """Compare token by token."""
        gained = [b - a for a, b in zip(before, after, strict=True)]
        each = text.scored
        parts = [gained[i : i + each] for i in range(0, len(gained), each)]
        means = [math.fsum(part) / len(part) for part in parts]
        mean = math.fsum(means) / len(means)
        spread = math.fsum((m - mean) ** 2 for m in means) / max(1, len(means) - 1)
        return cls(
            text=text.name,
            window=text.window,
            tokens=len(gained),
            before=math.fsum(before) / len(before),
            after=math.fsum(after) / len(after),
            error=math.sqrt(spread / len(means)) if len(means) > 1 else math.nan,
            most=most,
            begins=text.begins,
        )

    @property
    def change(self) -> float:
        """Nats per token that the loss rose by."""
        return self.after - self.before

    @property
    def share(self) -> float:
        """The change as a share of the loss before."""
        return self.change / self.before

    @property
    def passed(self) -> bool:
        """Whether the loss rose by no more than was allowed; a loss that is no number did not."""
        if self.most is None:
            return True
        return math.isfinite(self.share) and self.share <= self.most

    @property
    def sentence(self) -> str:
        """The gate in words."""
        begun = f", each begun with {self.begins}" if self.begins else ""
        said = (
            f"short text ({self.text}, windows of {self.window}{begun}) costs {self.after:.4f} "
            f"nats per token, {self.before:.4f} before: {100 * self.share:+.2f} %"
        )
        if self.most is None:
            return said
        verdict = "passes" if self.passed else "fails"
        return f"{said}; --gate {self.most:g} ({100 * self.most:g} %) {verdict}"
