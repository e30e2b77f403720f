"""One step of a trace: a tensor in a few numbers, and how far two computations of it are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk.short import short

SHOWN = 4
"""How many leading values of each vector are kept."""
ROUNDINGS = 8
"""Two ways to one value part by a few roundings of its dtype; this many are allowed."""


@short
@dataclass(frozen=True, slots=True)
class TraceStep:
    """What is known of one tensor on the way, one vector for each of `labels`.

    `shape` and `dtype` are the tensor's, `norms` the lengths of its vectors, `values` the first
    four components of each; all None or empty where nothing happens at this step, which
    `sentence` then says. `difference` is the largest between the model's own value and ours, and
    None where the model does not show this one; `allowed` is what rounding explains.
    """

    name: str
    sentence: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    labels: tuple[str, ...] = ()
    norms: tuple[float, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    difference: float | None = None
    allowed: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether rounding explains the difference; None where nothing was compared."""
        if self.difference is None or self.allowed is None:
            return None
        # Not the other way round: a difference that is no number agrees with nothing.
        return self.difference <= self.allowed


def step(
    name: str,
    sentence: str,
    tensor: Tensor,
    labels: Sequence[str],
    *,
    model: Tensor | None = None,
    allowed: float = 0.0,
) -> TraceStep:
    """The step of `tensor` (vectors, channels), compared with the model's own where it is seen.

    `allowed` is the difference that rounding explains, as a share of the largest value: 0 where
    both do one and the same operation, else see `rounding`.
    """
    wide = tensor.double()
    difference = bound = None
    if model is not None:
        difference = float((model.double() - wide).abs().max())
        bound = allowed * float(wide.abs().max())
    return TraceStep(
        name=name,
        sentence=sentence,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        labels=tuple(labels),
        norms=tuple(torch.linalg.vector_norm(wide, dim=-1).tolist()),
        values=tuple(tuple(row) for row in wide[:, :SHOWN].tolist()),
        difference=difference,
        allowed=bound,
    )


def rounding(dtype: torch.dtype, angle: float = 0.0) -> float:
    """The relative difference that rounding explains in `dtype`.

    `angle`: radians of the largest angle that went into it in fp32, in a rotation.
    """
    return ROUNDINGS * torch.finfo(dtype).eps + angle * torch.finfo(torch.float32).eps
