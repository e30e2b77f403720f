"""Scaled dot product attention as torch has it, at full speed under a bias too.

A bias that falls with distance leaves weights too small for the normal range of floating point,
by the million, and Intel's processors take far longer over each of those than over any other.
They are taken as zero here, which is what they are beside the others; the rows on ALiBi of
`python -m benchmarks.cpu` show what that is worth, next to a dense bias that keeps them.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.attention import SDPBackend

from ropewalk.kernels.cpu.subnormals import flushed

_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"


def sdpa(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """softmax(scale * q k + mask) v, grouped where k and v have fewer heads."""
    grouped = q.shape[1] != k.shape[1]
    return functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def biased_sdpa(
    q: Tensor, k: Tensor, v: Tensor, scale: float, *, causal: bool = False,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """As `sdpa`, for scores with a bias in them.

    On a CPU weights below 1.2e-38, and products below it, are taken as zero, forward and
    backward, and the threads go back to what they were in.
    """
    if not q.is_cpu or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return sdpa(q, k, v, scale, causal=causal, mask=mask)
    trains = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if trains and _flash(q, k, v, scale, causal, mask):
        if mask is not None and mask.dtype is torch.bool:
            mask = torch.zeros((), dtype=q.dtype).masked_fill(~mask, -torch.inf)
        out: Tensor = _Flushed.apply(q, k, v, mask, scale, causal)  # type: ignore[no-untyped-call]
        return out
    # A bias that learns goes through operators of its own, whose backward pass is torch's.
    with flushed() if not trains else nullcontext():
        return sdpa(q, k, v, scale, causal=causal, mask=mask)


def _flash(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, mask: Tensor | None
) -> bool:
    """Whether SDPA would take its fused CPU kernel, which is then called by its own name."""
    if not hasattr(torch.ops.aten, _FORWARD):
        return False
    choice: int = torch._fused_sdp_choice(
        q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    return choice == SDPBackend.FLASH_ATTENTION.value


class _Flushed(torch.autograd.Function):
    """SDPA's fused CPU kernel, with its backward pass under `flushed` as well."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool
    ) -> Tensor:
        ctx.scale, ctx.causal = scale, causal
        with flushed():
            out, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                q, k, v, 0.0, causal, attn_mask=mask, scale=scale
            )
        ctx.save_for_backward(q, k, v, mask, out, log_sum)
        attended: Tensor = out
        return attended

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, mask, out, log_sum = ctx.saved_tensors
        with flushed():
            grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                grad, q, k, v, out, log_sum, 0.0, ctx.causal, attn_mask=mask, scale=ctx.scale
            )
        return (*grads, None, None, None)
