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

from ropewalk.errors import UsageError
from ropewalk.kernels.bounds import INTEGERS, check_token_ids, check_token_rows
from ropewalk.kernels.embedding import lookup
from ropewalk.kernels.reference import wide
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.learned import Learned
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Scale:
    """Activations times `factor`, the product rounded once to their dtype.

    `Scale.sqrt(d_model)` is the original transformer's: a table of variance 1/d_model gives rows
    of length about 1, and position adds a vector of length sqrt(d_model / 2).
    Raises UsageError for a factor that is no positive number.
    """

    factor: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor > 0.0):
            raise UsageError(
                f"the scale of token vectors is {self.factor}; it must be a number above 0"
            )

    @classmethod
    def sqrt(cls, d_model: int) -> Self:
        """The factor sqrt(d_model): 22.6 for 512. Raises UsageError for a width below 1."""
        if d_model < 1:
            raise UsageError(f"d_model is {d_model}; token vectors have 1 channel or more")
        return cls(math.sqrt(d_model))

    def multiplier(self, dtype: torch.dtype) -> float:
        """What activations of `dtype` are multiplied by."""
        del dtype
        return self.factor

    def apply(self, x: Tensor) -> Tensor:
        """`x` scaled; the same shape and dtype."""
        return x * self.multiplier(x.dtype)


@short
@dataclass(frozen=True, slots=True)
class RoundedScale(Scale):
    """As Gemma scales: the factor itself is rounded to the dtype of the activations first.

    In bfloat16 sqrt(1152) = 33.94 becomes 34, and sqrt(640) = 25.298 becomes 25.25.
    """

    def multiplier(self, dtype: torch.dtype) -> float:
        """The factor, rounded to `dtype`."""
        rounded: float = _rounded(self.factor, dtype)
        return rounded


@short
@dataclass(frozen=True, slots=True)
class InputSteps:
    """What the path makes of the ids, step by step; each (batch, sequence, d_model).

    `rows` as the table has them, `scaled` after the scale, `placed` with position added.
    """

    rows: Tensor
    scaled: Tensor
    placed: Tensor


@dataclass(frozen=True, slots=True)
class _Placing:
    """What is added: nothing, ready rows, or a table with the positions that name its rows."""

    rows: Tensor | None = None
    position_ids: Tensor | None = None
    padding_idx: int | None = None


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
        several axes take (axes, batch, sequence). Raises RowError for an id that the table
        has no row for, with its place, and for positions that the encoding cannot take.

        One pass over the tokens where the table is a plain nn.Embedding and the encoding adds
        rows or nothing; any other table or encoding, and tables with hooks, go step by step.
        """
        check_token_ids(ids)
        placing = self._placing(ids, position_ids) if _is_plain(self.table) else None
        if placing is None:
            return self.steps(ids, position_ids).placed
        weight = self.table.weight
        return lookup(
            ids,
            weight,
            scale=None if self.scale is None else self.scale.multiplier(weight.dtype),
            padding_idx=self.table.padding_idx,
            added=placing.rows,
            position_ids=placing.position_ids,
            added_padding_idx=placing.padding_idx,
        )

    def steps(self, ids: Tensor, position_ids: Tensor) -> InputSteps:
        """As `forward`, with what there was on the way."""
        rows = self.lookup(ids)
        scaled = rows if self.scale is None else self.scale.apply(rows)
        if ids.dim() == 2:
            return InputSteps(rows, scaled, self.encoding.embed(scaled, position_ids))
        placed = self.encoding.embed(scaled.unsqueeze(0), position_ids).squeeze(0)
        return InputSteps(rows, scaled, placed)

    def _placing(self, ids: Tensor, position_ids: Tensor) -> _Placing | None:
        """What the encoding adds, as rows; None for what `steps` must add, or refuse."""
        encoding, weight = self.encoding, self.table.weight
        if self.scale is not None and type(self.scale).apply is not Scale.apply:
            return None
        if type(encoding).embed is PositionEncoding.embed:
            return _Placing()
        shapes = [ids.shape[-1:]]
        if ids.dim() == 2:
            shapes += [ids.shape, torch.Size((1, ids.shape[-1]))]
        if position_ids.shape not in shapes or position_ids.dtype not in INTEGERS:
            return None
        if type(encoding) is Sinusoidal and encoding.d_model == weight.shape[1]:
            return _Placing(encoding.table(position_ids, wide(weight.dtype)).to(weight.device))
        if type(encoding) is Learned and encoding.d_model == weight.shape[1]:
            padding = encoding.padding_idx
            if padding is not None:
                padding = padding - encoding.offset if padding >= encoding.offset else None
            return _Placing(encoding.weight[encoding.offset :], position_ids, padding)
        return None

    def lookup(self, ids: Tensor) -> Tensor:
        """The rows of `ids` (batch, sequence) or (sequence,). Raises RowError."""
        check_ids(ids, self.table.num_embeddings)
        rows: Tensor = self.table(ids.long())
        return rows

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        return f"scale={self.scale}"


def _is_plain(table: nn.Embedding) -> bool:
    """Whether calling `table` does no more than name rows of an ordinary tensor."""
    hooked = (
        table._forward_hooks
        or table._forward_pre_hooks
        or table._backward_hooks
        or table._backward_pre_hooks
    )
    return (
        type(table) is nn.Embedding
        and type(table.weight) in (nn.Parameter, Tensor)
        and table.max_norm is None
        and not table.scale_grad_by_freq
        and not table.sparse
        and not hooked
    )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _rounded(factor: float, dtype: torch.dtype) -> float:
    """`factor` as a number of `dtype`."""
    return torch.tensor(factor, dtype=dtype, device="cpu").item()


def check_ids(ids: Tensor, rows: int) -> None:
    """Refuse token ids that are no integers (batch, sequence) or (sequence,) below `rows`.

    Raises RowError, run eagerly with row, column, id and the count of rows: a device would
    only fail an assert, and take every later call with it.
    """
    check_token_ids(ids)
    check_token_rows(ids, rows)
