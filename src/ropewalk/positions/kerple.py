"""Kerple: biases from kernels of distance with two trained numbers a head (2205.09921).

The paper's kernels are positive definite only for certain values, so the parameters are stored
without bounds and brought into theirs by a smooth map: r1 and r2 above 0 by softplus, the power
between 0 and 2 by a sigmoid. Nothing is cut off, so no parameter can be stuck at a bound.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ropewalk.positions.base import Description
from ropewalk.positions.relative import RelativeBias, widened


class _Kerple(RelativeBias):
    """Two unbounded trained numbers a head, `raw_r1` and `raw_r2`, (heads,) each."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.raw_r1 = nn.Parameter(torch.empty(heads))
        self.raw_r2 = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw r1 evenly from 0.01 to 2 and r2 from 0.01 to 1, as the authors' code starts."""
        for raw, highest in ((self.raw_r1, 2.0), (self.raw_r2, 1.0)):
            nn.init.uniform_(raw, 0.01, highest)
        self.set_values(self.raw_r1.detach().clone(), self.raw_r2.detach().clone())

    @property
    def r1(self) -> Tensor:
        """The kernel's size, above 0, (heads,)."""
        return functional.softplus(widened(self.raw_r1))

    @property
    def r2(self) -> Tensor:
        """How fast it falls, (heads,), within the paper's bounds."""
        raise NotImplementedError

    @torch.no_grad()
    def set_values(self, r1: Tensor, r2: Tensor) -> None:
        """Take the paper's values, (heads,) each, as from a checkpoint."""
        raise NotImplementedError

    def tables(
        self, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """r1 and r2, (heads,) each."""
        return widened(self.r1, dtype).to(device), widened(self.r2, dtype).to(device)


class KerpleLog(_Kerple):
    """-r1 * log(1 + r2 * |i - j|) on the scores; r1, r2 above 0."""

    @property
    def r2(self) -> Tensor:
        """How fast the logarithm sets in, above 0, (heads,)."""
        return functional.softplus(widened(self.raw_r2))

    @torch.no_grad()
    def set_values(self, r1: Tensor, r2: Tensor) -> None:
        """Take the paper's values, (heads,) each, as from a checkpoint."""
        self.raw_r1.copy_(_before_softplus(r1))
        self.raw_r2.copy_(_before_softplus(r2))

    def bias_at(self, head: Tensor, distance: Tensor, *tables: Tensor) -> Tensor:
        """The logarithmic kernel; fp32, fp64 where the parameters are."""
        r1, r2 = (table[head] for table in tables)
        return -r1 * torch.log1p(r2 * distance.abs().to(r1.dtype))

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return _describe("Kerple (log)", "extrapolates well")


class KerplePower(_Kerple):
    """-r1 * |i - j|^r2 on the scores; r1 above 0, r2 between 0 and 2."""

    @property
    def r2(self) -> Tensor:
        """The power, between 0 and 2, (heads,)."""
        return 2 * torch.sigmoid(widened(self.raw_r2))

    @torch.no_grad()
    def set_values(self, r1: Tensor, r2: Tensor) -> None:
        """Take the paper's values, (heads,) each, as from a checkpoint."""
        self.raw_r1.copy_(_before_softplus(r1))
        self.raw_r2.copy_(torch.logit(r2 / 2))

    def bias_at(self, head: Tensor, distance: Tensor, *tables: Tensor) -> Tensor:
        """The power kernel; fp32, fp64 where the parameters are."""
        r1, r2 = (table[head] for table in tables)
        return -r1 * distance.abs().to(r1.dtype).pow(r2)

    def describe(self) -> Description:
        """This encoding's row of the comparison table."""
        return _describe("Kerple (power)", "extrapolates, the more the smaller the power")


def _before_softplus(values: Tensor) -> Tensor:
    """x with softplus(x) = values, without overflow: values + log(1 - exp(-values))."""
    return values + torch.log(-torch.expm1(-values))


def _describe(name: str, beyond: str) -> Description:
    return Description(
        name=name,
        parameters="2 x heads",
        applied_to="attention scores",
        encodes="relative distance penalty, its shape trained",
        beyond_trained_length=beyond,
        typical_users="research models",
    )
