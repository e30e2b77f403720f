"""Factors on queries, keys or scores that grow with the logarithm of a position or a length."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from ropewalk.short import short

Grows = Literal["in steps", "by ratio", "by base", "learned"]
"""The formula, with n the position or the length:

"in steps"  1 + scale ln(1 + floor(n / start)): Llama 4's temperature, Mistral's llama_4_scaling
"by ratio"  1 + scale ln(max(n / start, 1)): the keys of dual chunk attention, Inkling's scores
"by base"   max(ln n / ln start, 1): Qwen-1's log-n attention
"learned"   s ln n, with s trained for each head: SSMax (2501.19399, section 3)
"""


@short
@dataclass(frozen=True, slots=True)
class LogRule:
    """What `on` (queries, keys, or the scores of both) is multiplied by, beside the softmax scale.

    `of`: n is the position of the token (from `first` on) or the length of the whole sequence.
    `start` in tokens and `scale` are the formula's constants, None where it has none; `keys` are
    those of the file that they are from, each with its place.
    """

    grows: Grows
    on: Literal["queries", "keys", "scores"] = "queries"
    of: Literal["position", "length"] = "position"
    start: float | None = None
    scale: float | None = None
    first: int = 0
    keys: tuple[str, ...] = field(default=(), compare=False)

    def factor(self, n: int) -> float | None:
        """The factor of the token at position `n`, or in a sequence of `n` tokens; None where it
        was trained.
        """
        at = n + self.first if self.of == "position" else n
        start, scale = self.start, self.scale
        if self.grows == "learned" or start is None:
            return None
        if self.grows == "by base":
            return max(math.log(at) / math.log(start), 1.0) if at > 0 else 1.0
        if scale is None:
            return None
        if self.grows == "in steps":
            return 1.0 + scale * math.log1p(math.floor(at / start))
        return 1.0 + scale * math.log(max(at / start, 1.0))

    @property
    def formula(self) -> str:
        """In words, with its numbers."""
        n = f"{self.of} + {self.first}" if self.first else self.of
        over = f"({n})" if self.first else n
        start, scale = f"{self.start or 0:g}", f"{self.scale or 0:g}"
        match self.grows:
            case "in steps":
                return f"1 + {scale} ln(1 + floor({over} / {start}))"
            case "by ratio":
                return f"1 + {scale} ln(max({over} / {start}, 1))"
            case "by base":
                return f"max(ln({n}) / ln {start}, 1)"
            case "learned":
                return f"s ln({n}), s trained for each head"
