"""A trained row for every position, added to the token vectors (GPT-2, BERT, RoBERTa, OPT)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ropewalk.errors import UsageError
from ropewalk.kernels.bounds import learned_end
from ropewalk.kernels.reference import wide
from ropewalk.positions.base import Description, PositionEncoding
from ropewalk.positions.checks import check_fit, check_positions
from ropewalk.positions.sinusoidal import check_width

INIT_STD = 0.02
"""The spread of new rows in GPT-2, BERT and RoBERTa."""


class Learned(PositionEncoding):
    """`weight` (rows + offset, d_model); position p is row p + offset, and row `rows` ends it.

    `offset` rows at the start serve no position. `padding_idx` is a row of `weight` that starts
    at zero and takes no gradient, as in nn.Embedding. Checkpoints load as they are:

    - GPT-2, BERT: `Learned(rows, d)`.
    - RoBERTa, 514 rows: `Learned(514, d, padding_idx=1)` with ids as its own code counts them
      (`position_ids_from_mask`, "roberta"), or `Learned(512, d, offset=2)` with ids from 0.
    - OPT: `Learned(2048, d, offset=2)` with ids from 0.

    Raises UsageError at construction for sizes that make no table.
    """

    def __init__(
        self, rows: int, d_model: int, offset: int = 0, padding_idx: int | None = None
    ) -> None:
        super().__init__()
        if rows < 1 or d_model < 1 or offset < 0:
            raise UsageError(
                f"rows is {rows}, d_model {d_model}, offset {offset}; a table needs at least one "
                "row and one channel, and an offset of 0 or more"
            )
        if padding_idx is not None and not 0 <= padding_idx < rows + offset:
            raise UsageError(
                f"padding_idx is {padding_idx}; it names a row of the table, 0 to "
                f"{rows + offset - 1}"
            )
        self.rows, self.d_model, self.offset, self.padding_idx = rows, d_model, offset, padding_idx
        self.weight = nn.Parameter(torch.empty(rows + offset, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new rows, normal with standard deviation 0.02; the padding row becomes 0."""
        nn.init.normal_(self.weight, std=INIT_STD)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].zero_()

    def table(self, position_ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """The rows of positions (...): (..., d_model) in `dtype`.

        Raises PositionError, with the place, for a position that has no row.
        """
        check_positions(position_ids, high=self.rows - 1, why=learned_end(self.rows))
        rows = nn.functional.embedding(
            position_ids.long() + self.offset, self.weight, self.padding_idx
        )
        return rows.to(dtype)

    def embed(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """`x` (batch, sequence, d_model) plus the rows, summed in fp32 at least.

        Raises a UsageError for ids or a width that do not fit.
        """
        check_width(x, self.d_model)
        check_fit(position_ids, x.shape[0], x.shape[1], None, "position_ids")
        table = self.table(position_ids, wide(x.dtype))
        return (x.to(table.dtype) + table).to(x.dtype)

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="learned",
            parameters=f"{self.rows + self.offset} x {self.d_model}",
            applied_to="input embedding",
            encodes="absolute only",
            beyond_trained_length="impossible",
            typical_users="GPT-2, BERT",
        )

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.rows}, {self.d_model}, offset={self.offset}{padding}"
