"""Checks on position ids, once for every encoding.

Run eagerly, a wrong position is a PositionError that says where it stands; reading the values
waits for the device. Under `torch.compile`, and while a CUDA graph is recorded, the same
conditions become asynchronous asserts: no graph break and no wait, and a message without the
place. Dtypes and shapes are known without reading anything and are checked in every mode.
"""

from __future__ import annotations

from torch import Tensor

from ropewalk.errors import PositionError, TensorError
from ropewalk.kernels.bounds import INTEGERS, PLACES, check_bounds, reads_values

__all__ = ["INTEGERS", "check_axes", "check_fit", "check_positions", "reads_values"]


def check_positions(
    ids: Tensor,
    *,
    what: str = "position_ids",
    low: int = 0,
    high: int | None = None,
    why: str = "positions count tokens from 0",
) -> None:
    """Refuse ids that are not integers from `low` to `high`, both included.

    `ids`: (sequence,), (batch, sequence) or (axes, batch, sequence). `what` names them in the
    message and `why` ends it: the reason for the bounds, and what to do. A tensor without
    values (meta device) passes on dtype and shape.

    Raises TensorError for another dtype, PositionError for another rank and, run eagerly, with
    the place of the first value out of bounds. Compiled, such a value fails an assert on the
    device.
    """
    if ids.dtype not in INTEGERS:
        raise TensorError(
            f"{what} has dtype {ids.dtype}; positions are integers, since floating point loses "
            "count (bfloat16 cannot hold 257): pass an int64 tensor"
        )
    if ids.dim() not in PLACES:
        raise PositionError(
            f"{what} has shape {tuple(ids.shape)}; allowed are (sequence,), (batch, sequence) "
            "and (axes, batch, sequence)"
        )
    check_bounds(ids, what, low, high, why)


def check_fit(ids: Tensor, batch: int, length: int, axes: int | None, what: str) -> None:
    """Refuse ids whose shape does not belong to `length` tokens in each of `batch` rows.

    `axes` is how many axes the encoding has, None for one that takes no axis dimension. A
    single row serves a whole batch. Raises PositionError.
    """
    check_axes(ids, axes, what)
    rows = ids.shape[-2] if ids.dim() > 1 else 1
    if ids.shape[-1] != length or rows not in (1, batch):
        raise PositionError(
            f"{what} has shape {tuple(ids.shape)} for {batch} rows of {length} tokens; give every "
            f"token its position: ({length},) or ({batch}, {length})"
        )


def check_axes(ids: Tensor, axes: int | None, what: str) -> None:
    """Refuse ids with another axis dimension than `axes`, None for none. Raises PositionError."""
    if not 1 <= ids.dim() <= 3:
        raise PositionError(
            f"{what} has shape {tuple(ids.shape)}; positions are (sequence,), (batch, sequence) "
            "or (axes, batch, sequence)"
        )
    if ids.dim() == 3 and ids.shape[0] != axes:
        wanted = "one axis: (batch, sequence)" if axes is None else f"{axes} axes, given first"
        raise PositionError(
            f"{what} has shape {tuple(ids.shape)}; this encoding takes positions of {wanted}"
        )
