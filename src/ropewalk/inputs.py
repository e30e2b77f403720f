"""From token ids to what the first block of a transformer receives.

"The cat sat" -> ids (3,) -> rows of the table (3, d_model) -> times a scale, where the model has
one -> plus what the encoding adds at positions 0, 1, 2 -> (3, d_model). Rotary and ALiBi add
nothing here: they act inside every block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from ropewalk.errors import PositionError
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.checks import INTEGERS, check_positions


@dataclass(frozen=True, slots=True)
class Scale:
    """Activations times `factor`, the product rounded once to their dtype.

    `Scale.sqrt(d_model)` is the original transformer's: a table of variance 1/d_model gives rows
    of length about 1, and position adds a vector of length sqrt(d_model / 2).
    Raises PositionError for a factor that is no positive number.
    """

    factor: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor > 0.0):
            raise PositionError(
                f"the scale of token vectors is {self.factor}; it must be a number above 0"
            )

    @classmethod
    def sqrt(cls, d_model: int) -> Self:
        """The factor sqrt(d_model): 22.6 for 512. Raises PositionError for a width below 1."""
        if d_model < 1:
            raise PositionError(f"d_model is {d_model}; token vectors have 1 channel or more")
        return cls(math.sqrt(d_model))

    def apply(self, x: Tensor) -> Tensor:
        """`x` scaled; the same shape and dtype."""
        return x * self.factor


@dataclass(frozen=True, slots=True)
class RoundedScale(Scale):
    """As Gemma scales: the factor itself is rounded to the dtype of the activations first.

    In bfloat16 sqrt(1152) = 33.94 becomes 34, and sqrt(640) = 25.298 becomes 25.25.
    """

    def apply(self, x: Tensor) -> Tensor:
        """`x` scaled by the rounded factor; the same shape and dtype."""
        return x * torch.tensor(self.factor, dtype=x.dtype, device="cpu")


@dataclass(frozen=True, slots=True)
class InputSteps:
    """What the path makes of the ids, step by step; each (batch, sequence, d_model).

    `rows` as the table has them, `scaled` after the scale, `placed` with position added.
    """

    rows: Tensor
    scaled: Tensor
    placed: Tensor


class InputPath(nn.Module):
    """Lookup, scale, position: token ids to the input of the first block.

    `table` is an embedding of (vocabulary, d_model). `scale` multiplies the activations and never
    the table, so that a table shared with the output layer stays as it is; None for no scale.
    """

    def __init__(
        self, table: nn.Embedding, encoding: PositionEncoding, scale: Scale | None = None
    ) -> None:
        super().__init__()
        self.table, self.encoding, self.scale = table, encoding, scale

    def forward(self, ids: Tensor, position_ids: Tensor) -> Tensor:
        """Token ids, integers (batch, sequence) or (sequence,): vectors (..., d_model).

        `position_ids`: integers of the same shape, or (sequence,) for all rows; encodings with
        several axes take (axes, batch, sequence). Raises PositionError for an id that the table
        has no row for, with its place, and for positions that the encoding cannot take.
        Compiled, an id out of range fails an assert on the device.
        """
        return self.steps(ids, position_ids).placed

    def steps(self, ids: Tensor, position_ids: Tensor) -> InputSteps:
        """As `forward`, with what there was on the way."""
        rows = self.lookup(ids)
        scaled = rows if self.scale is None else self.scale.apply(rows)
        if ids.dim() == 2:
            return InputSteps(rows, scaled, self.encoding.embed(scaled, position_ids))
        placed = self.encoding.embed(scaled.unsqueeze(0), position_ids).squeeze(0)
        return InputSteps(rows, scaled, placed)

    def lookup(self, ids: Tensor) -> Tensor:
        """The rows of `ids` (batch, sequence) or (sequence,). Raises PositionError."""
        check_ids(ids, self.table.num_embeddings)
        rows: Tensor = self.table(ids.long())
        return rows

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        return f"scale={self.scale}"


def check_ids(ids: Tensor, rows: int) -> None:
    """Refuse token ids that are no integers (batch, sequence) or (sequence,) below `rows`.

    Raises PositionError, run eagerly with row, column, id and the count of rows: a device would
    only fail an assert, and take every later call with it.
    """
    if ids.dtype not in INTEGERS:
        raise PositionError(
            f"token ids have dtype {ids.dtype}; they name rows of the table: pass an int64 tensor"
        )
    if ids.dim() not in (1, 2):
        raise PositionError(
            f"token ids have shape {tuple(ids.shape)}; allowed are (batch, sequence) and "
            "(sequence,)"
        )
    check_positions(
        ids,
        what="the tensor of token ids",
        high=rows - 1,
        why=f"the table has {rows} rows; use the tokenizer that belongs to it, or a longer table",
    )
