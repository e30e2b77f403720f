"""The token embedding: a table with one row of `d_model` numbers for each token id.

The lookup is the product of a one-hot row and the table, without the multiplications by 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk import kernels
from ropewalk.errors import UsageError
from ropewalk.inputs import Scale


class TokenEmbedding(nn.Embedding):
    """A table `weight` (vocab_size, d_model), its scale, and the output head that is tied to it.

    - `scale` multiplies the looked-up activations and never the table, which the head shares:
      `Scale.sqrt(d_model)` as the original transformer has it, `RoundedScale.sqrt(d_model)` as
      Gemma (the factor rounded to the dtype of the activations), None for none. In an
      `InputPath`, which has a scale of its own, give it to one of the two.
    - `logits` is the tied head. It has no table of its own, so that nothing can untie the two.
      `bias=True` gives it one number per token, `bias` (vocab_size,), which starts at 0.
    - `padding_idx` is torch's: the row starts at 0 and the lookup sends it no gradient (the head
      does); negative ids count from the end.

    New rows are normal with variance 1 / d_model. `device` and `dtype` are those of the table.
    Raises UsageError for sizes that make no table and for a padding_idx outside it.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        scale: Scale | None = None,
        *,
        padding_idx: int | None = None,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if vocab_size < 1 or d_model < 1:
            raise UsageError(
                f"vocab_size is {vocab_size} and d_model {d_model}; a table has at least one row "
                "and one channel"
            )
        if padding_idx is not None and not -vocab_size <= padding_idx < vocab_size:
            raise UsageError(
                f"padding_idx is {padding_idx}; it names a row of the table, 0 to "
                f"{vocab_size - 1}, or {-vocab_size} to -1 counted from the end"
            )
        super().__init__(vocab_size, d_model, padding_idx, device=device, dtype=dtype)
        self.scale = scale
        made = torch.zeros(vocab_size, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", None if made is None else nn.Parameter(made))

    def reset_parameters(self) -> None:
        """Draw new rows, normal with standard deviation d_model ** -0.5; the padding row is 0."""
        nn.init.normal_(self.weight, std=1.0 / math.sqrt(self.embedding_dim))
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].zero_()

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids, integers (batch, sequence) or (sequence,): scaled rows (..., d_model).

        Raises RowError with row, column, id and the count of rows for an id that has none,
        before a device can fail an assert. Compiled, it is an assert on the device.
        """
        factor = None if self.scale is None else self.scale.multiplier(self.weight.dtype)
        return kernels.lookup(ids, self.weight, scale=factor, padding_idx=self.padding_idx)

    def lookup(self, ids: Tensor) -> Tensor:
        """The rows of `ids` as the table has them, unscaled. Raises as `forward`."""
        return kernels.lookup(ids, self.weight, padding_idx=self.padding_idx)

    def logits(self, hidden: Tensor) -> Tensor:
        """The tied head: `hidden` (..., d_model) against every row, plus bias: (..., vocab_size).

        Raises UsageError for another width.
        """
        if hidden.shape[-1:] != (self.embedding_dim,):
            raise UsageError(
                f"the head got vectors of shape {tuple(hidden.shape)}; the last dimension must be "
                f"the table's width, {self.embedding_dim}"
            )
        return functional.linear(hidden, self.weight, self.bias)

    def extra_repr(self) -> str:
        """What stands between the brackets when the module is printed."""
        return f"{super().extra_repr()}, scale={self.scale}, bias={self.bias is not None}"
