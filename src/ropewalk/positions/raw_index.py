"""The raw index, appended to the token vectors and projected back: what not to do, as a module.

It stands beside the encodings so that they can be compared with it by training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ropewalk.errors import TensorError, UsageError
from ropewalk.positions.base import Description, PositionEncoding
from ropewalk.positions.checks import check_positions


class RawIndex(PositionEncoding):
    """x (.., d_model) becomes a trained projection of [x, position] back to d_model channels.

    `weight` is (d_model, d_model + 1) and starts as [identity, 0.02], so that at first the tokens
    pass through. Raises UsageError for a width below 1.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        if d_model < 1:
            raise UsageError(f"d_model is {d_model}; token vectors have 1 channel or more")
        self.d_model = d_model
        self.weight = nn.Parameter(torch.empty(d_model, d_model + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the projection to what it starts as."""
        with torch.no_grad():
            self.weight[:, :-1] = torch.eye(self.d_model)
            self.weight[:, -1] = 0.02

    def embed(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """The projection. Raises a UsageError for another width, or ids that are no positions."""
        check_positions(position_ids)
        if x.shape[-1] != self.d_model:
            raise TensorError(
                f"the token vectors have {x.shape[-1]} channels; this projection takes "
                f"{self.d_model}"
            )
        index = position_ids.to(x.dtype).expand(x.shape[:-1]).unsqueeze(-1)
        return torch.cat((x, index), dim=-1) @ self.weight.to(x.dtype).T

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return Description(
            name="raw index",
            parameters="d_model x (d_model + 1)",
            applied_to="input embedding, as one more component that is projected back",
            encodes="absolute only",
            beyond_trained_length="defined, with values never trained on",
            typical_users="none",
        )
