"""Integers that name rows: what may name them, and the sentence for one that names none.

Run eagerly, a wrong value is an error (RowError for token ids, PositionError for positions) that
says where it stands; reading the values waits for the device. Under `torch.compile`, and while a
CUDA graph is recorded, the same condition is an asynchronous assert: no graph break and no wait,
and a message without the place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from weakref import ReferenceType, ref

import torch
from torch import Tensor

from ropewalk.errors import PositionError, RowError, TensorError, UsageError

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""What ids and positions may be: half precision already confuses position 257 with 256."""

PLACES = {1: ("column",), 2: ("row", "column"), 3: ("axis", "row", "column")}
"""What the dimensions of ids are called, by their number."""


def check_bounds(
    ids: Tensor,
    what: str,
    low: int,
    high: int | None,
    why: str,
    error: type[UsageError] = PositionError,
) -> None:
    """Refuse integers (sequence,), (batch, sequence) or (axes, ...) outside `low` to `high`.

    Both bounds are included; None for no upper one. `what` names the tensor in the message, and
    `why` ends it. A tensor without values (meta device) passes. Raises `error`, run
    eagerly, with the place of the first value out of bounds; otherwise asserts on the device.
    """
    if ids.is_meta or passed(ids, (low, high)):
        return
    wrong = ids < low if high is None else (ids < low) | (ids > high)
    if not reads_values(ids):
        allowed = f"at least {low}" if high is None else f"{low} to {high}"
        torch._assert_async(~wrong.any(), f"{what} must be {allowed}; {why}")
    elif bool(wrong.any()):
        raise error(_located(ids, wrong, what, low, high, why))
    note_passed(ids, (low, high))


# Position ids pass through several doors in every layer, and reading them waits for the device.
# A tensor that has passed is known by itself and by how often it had been written to.
_PASSED: deque[tuple[ReferenceType[Tensor], int, Hashable]] = deque(maxlen=16)


def passed(ids: Tensor, check: Hashable) -> bool:
    """Whether these very numbers have passed this check: nothing was written to them since."""
    return _remembers(ids) and any(
        tensor() is ids and version == ids._version and done == check
        for tensor, version, done in tuple(_PASSED)
    )


def note_passed(ids: Tensor, check: Hashable) -> None:
    """Note that `ids` have passed a check, under which `passed` then finds them."""
    if _remembers(ids):
        _PASSED.append((ref(ids), ids._version, check))


def _remembers(ids: Tensor) -> bool:
    """Whether writes to a tensor are counted, and it is one whose values are read at all."""
    return reads_values(ids) and type(ids) is Tensor and not ids.is_inference()


def check_token_ids(ids: Tensor) -> None:
    """Refuse token ids that are no integers (batch, sequence) or (sequence,); reads no value.

    Raises TensorError.
    """
    if not isinstance(ids, Tensor):
        raise TensorError(
            f"token ids are of type {type(ids).__name__}; they name rows of the table: pass "
            "an int64 tensor"
        )
    if ids.dtype not in INTEGERS:
        raise TensorError(
            f"token ids have dtype {ids.dtype}; they name rows of the table: pass an int64 tensor"
        )
    if ids.dim() not in (1, 2):
        raise TensorError(
            f"token ids have shape {tuple(ids.shape)}; allowed are (batch, sequence) and "
            "(sequence,)"
        )


def check_token_rows(ids: Tensor, rows: int) -> None:
    """Refuse token ids, as `check_bounds` does, that name none of the `rows` of a table."""
    why = f"the table has {rows} rows; use the tokenizer that belongs to it, or a longer table"
    check_bounds(ids, "the tensor of token ids", 0, rows - 1, why, RowError)


def check_position_rows(position_ids: Tensor, rows: int) -> None:
    """Refuse positions, as `check_bounds` does, that a learned table of `rows` does not have."""
    check_bounds(position_ids, "position_ids", 0, rows - 1, learned_end(rows))


def learned_end(rows: int) -> str:
    """Why there is no position beyond a learned table of `rows`, and what to do."""
    return (
        f"the learned table has {rows} positions and nothing beyond them; shorten the input, or "
        "train a longer table"
    )


def reads_values(ids: Tensor) -> bool:
    """Whether values may be read on the way: not while compiling or recording a CUDA graph."""
    if torch.compiler.is_compiling():
        return False
    return not (ids.is_cuda and torch.cuda.is_current_stream_capturing())


def _located(ids: Tensor, wrong: Tensor, what: str, low: int, high: int | None, why: str) -> str:
    """The sentence for the first wrong value: what, where, what is allowed, why."""
    index = tuple(int(i) for i in wrong.nonzero()[0])
    names = PLACES[ids.dim()]
    place = ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=True))
    allowed = f"{low} or more" if high is None else f"{low} to {high}"
    return f"{what} holds {int(ids[index])} at {place}; allowed is {allowed}: {why}"
