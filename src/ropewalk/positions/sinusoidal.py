"""Fixed sines and cosines added to the token vectors (1706.03762, section 3.5)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ropewalk.errors import TensorError, UsageError
from ropewalk.kernels.reference import wide
from ropewalk.positions.base import Description, ExactEncoding, constant, to_exact
from ropewalk.positions.checks import check_fit, check_positions
from ropewalk.rope.schedules import plain_inv_freq

Variant = Literal["paper", "tensor2tensor", "marian"]
"""Which of three tables that go by one name; see `Sinusoidal`."""


class Sinusoidal(ExactEncoding):
    """Sines and cosines of the position at d_model / 2 frequencies; no table, so no end.

    Variants, with pair i = 0 .. d/2 - 1:

    - "paper": base^(-2i/d); sine in channel 2i, cosine in 2i + 1.
    - "tensor2tensor": base^(-i/(d/2 - 1)); all sines, then all cosines, then a zero where d is
      odd. What the authors' own code, fairseq, Whisper and most old checkpoints have.
    - "marian": the paper's frequencies, all sines before all cosines.

    They are not interchangeable: at d = 4 the second frequency is 0.01 or 0.0001.

    Raises UsageError at construction for a d_model that a variant cannot fill.
    """

    def __init__(self, d_model: int, variant: Variant = "paper", base: float = 10_000.0) -> None:
        super().__init__()
        self.d_model, self.variant, self.base = d_model, variant, base
        self.constants["inv_freq"] = constant(_inv_freq(d_model, variant, base))

    def table(self, position_ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The encodings of positions (...): (..., d_model), from fp64 rounded once to `dtype`.

        Raises PositionError for ids that are no positions.
        """
        check_positions(position_ids)
        angles = to_exact(position_ids, self.constants["inv_freq"])
        sine, cosine = angles.sin(), angles.cos()
        if self.variant == "paper":
            filled = torch.stack((sine, cosine), dim=-1).flatten(-2)
        else:
            filled = torch.cat((sine, cosine), dim=-1)
        filled = torch.nn.functional.pad(filled, (0, self.d_model - filled.shape[-1]))
        return filled.to(dtype).to(position_ids.device)

    def embed(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """`x` (batch, sequence, d_model) plus the encodings, summed in fp32 at least.

        Raises a UsageError for ids or a width that do not fit.
        """
        check_width(x, self.d_model)
        check_fit(position_ids, x.shape[0], x.shape[1], None, "position_ids")
        table = self.table(position_ids, wide(x.dtype))
        return (x.to(table.dtype) + table.to(x.device)).to(x.dtype)

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="sinusoidal",
            parameters="0",
            applied_to="input embedding",
            encodes="absolute (relative recoverable)",
            beyond_trained_length="defined, degrades",
            typical_users="the original transformer",
        )

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        return f"{self.d_model}, variant={self.variant!r}, base={self.base:g}"


def check_width(x: Tensor, d_model: int) -> None:
    """Refuse token vectors that are not (batch, sequence, d_model). Raises TensorError."""
    if x.dim() != 3 or x.shape[-1] != d_model:
        raise TensorError(
            f"token vectors have shape {tuple(x.shape)}; this encoding adds to (batch, sequence, "
            f"{d_model})"
        )


def _inv_freq(d_model: int, variant: Variant, base: float) -> tuple[float, ...]:
    """Radians a token of each pair, fastest first; see `Sinusoidal` for formulas and errors."""
    if not base > 1.0:
        raise UsageError(f"the base is {base}; it must be a number above 1")
    if variant == "tensor2tensor":
        pairs = d_model // 2
        if pairs < 2:
            raise UsageError(
                f"the tensor2tensor variant divides by d_model/2 - 1, which is {pairs - 1} for "
                f"d_model {d_model}; use 4 or more, or the paper's variant"
            )
        return tuple(base ** (-i / (pairs - 1)) for i in range(pairs))
    if variant not in ("paper", "marian"):
        raise UsageError(
            f"variant {variant!r} is not known; there are 'paper', 'tensor2tensor' and 'marian'"
        )
    if d_model < 2 or d_model % 2:
        raise UsageError(
            f"d_model is {d_model}; sines and cosines come in pairs, so it must be even and at "
            "least 2 (old checkpoints of odd width use variant='tensor2tensor')"
        )
    return plain_inv_freq(base, d_model)
