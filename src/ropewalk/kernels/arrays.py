"""Floating point numbers as numpy has them: a tensor's memory and a file's pages alike.

What reads tables from a command line goes by arrays, for importing torch takes longer than
reading the table. numpy has no bfloat16; here, and in all that speaks of `Array`, an array of
uint16 holds the bits of bfloat16, and never anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[Any]
"""Numbers, masks or ids; bfloat16 by its bits, in uint16."""

BFLOAT16 = np.dtype(np.uint16)


def as_array(tensor: Tensor) -> Array:
    """The memory of a tensor on the CPU, its shape and strides kept; nothing is copied."""
    import torch

    own = tensor.detach()
    if own.dtype is torch.bfloat16:
        return own.view(torch.int16).numpy().view(BFLOAT16)
    array: Array = own.numpy()
    return array


def as_tensor(array: Array) -> Tensor:
    """The memory of an array as a tensor of its shape; nothing is copied."""
    import torch

    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def singles(array: Array) -> npt.NDArray[np.float32]:
    """In float32; exact for the narrower types, infinite for what float32 cannot hold."""
    if array.dtype == BFLOAT16:
        return (array.astype(np.uint32, order="C") << np.uint32(16)).view(np.float32)
    with np.errstate(over="ignore"):
        return array.astype(np.float32, order="C")


def doubles(array: Array) -> npt.NDArray[np.float64]:
    """In float64, exact."""
    wide = singles(array) if array.dtype == BFLOAT16 else array
    return wide.astype(np.float64, order="C")
