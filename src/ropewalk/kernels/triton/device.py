"""Launching on the device that holds the tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def on_device_of(x: Tensor) -> AbstractContextManager[object]:
    """A context in which kernels are launched on `x`'s GPU; nothing for Triton's interpreter."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
