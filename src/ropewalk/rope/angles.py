"""The angles of one encoding at one length: a value, and the hash by which to compare it."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Schedule:
    """The angles of one rotary encoding at one sequence length.

    `inv_freq` and `unscaled` hold rotary_dim / 2 values in radians per token, fp64, slowest pair
    last; 0.0 is a pair that stands still. The amplitude is a pair: `attention_factor` multiplies
    cos and sin, `softmax_factor` the usual scale of the scores; `attention_rule` says which rule
    gave the first. `rules` tells in sentences everything that fired on the way.
    """

    inv_freq: tuple[float, ...]
    unscaled: tuple[float, ...]
    attention_factor: float
    attention_rule: str
    softmax_factor: float = 1.0
    rules: tuple[str, ...] = ()

    def fingerprint(self) -> str:
        """16 hex digits that trainer and server can compare.

        Hashed is what the angles and scores are made of, and nothing that only names it. SHA-256
        over these bytes, little-endian: the count of pairs as an unsigned 32-bit integer; each
        frequency of `inv_freq` in its order, the attention factor and the softmax factor, each
        rounded to the nearest fp32 (ties to even). The first 16 hex digits count.

        Equal, therefore, exactly when frequencies, amplitude and softmax factor agree to fp32
        rounding. Not in it: layout, head_dim and sections, which say where the angles go and not
        what they are.
        """
        numbers = (*self.inv_freq, self.attention_factor, self.softmax_factor)
        packed = struct.pack(f"<I{len(numbers)}f", len(self.inv_freq), *numbers)
        return hashlib.sha256(packed).hexdigest()[:16]
