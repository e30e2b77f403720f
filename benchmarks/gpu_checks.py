"""What `benchmarks.gpu` holds the GPU kernels to before it times them: fp64 on the same device.

Each check raises AssertionError with its figures. Sizes are small; the one tensor of more than
2^31 elements is tried where the GPU has room for it.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ropewalk import kernels
from ropewalk.attention import attention
from ropewalk.attention.attend import AttentionCall, prepare
from ropewalk.attention.plan import Kernel
from ropewalk.kernels import reference
from ropewalk.kernels.triton import lookup, rotate
from ropewalk.positions.alibi import Alibi
from ropewalk.rope.spec import Layout

LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)

# Of the exact value: one rounding to the dtype. The interpreter truncates to bf16.
ROUNDING = {torch.float32: 2**-22, torch.float16: 2**-11, torch.bfloat16: 2**-8}

WRONG_ID = """
import torch
from ropewalk.kernels.triton.lookup import lookup
lookup(torch.tensor([0, 9], device="cuda"), torch.zeros(4, 64, device="cuda"))
torch.cuda.synchronize()
"""


def tables(
    shape: tuple[int, ...], device: str, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of random angles, fp32 unless told."""
    angles = 100 * torch.rand(shape, dtype=torch.float64, device=device)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def close(got: Tensor, exact: Tensor, terms: Tensor, interpreted: bool = False) -> None:
    """Assert that `got` is `exact` (fp64) but for its own rounding and fp32's of `terms`."""
    bound = ROUNDING[got.dtype] * (2 if interpreted else 1)
    allowed = bound * exact.abs() + 2**-21 * terms.double().abs().amax()
    worst = ((got.double() - exact).abs() / allowed).max()
    assert worst <= 1, f"{got.dtype} {tuple(got.shape)}: {float(worst):.2f} of what is allowed"


def rotated(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: Layout,
    *,
    inverse: bool = False,
    blocks: rotate.Blocks | None = None,
) -> tuple[Tensor, Tensor]:
    """q and k rotated by the kernel into new tensors."""
    outs = torch.empty_like(q), torch.empty_like(k)
    rotate.rotate(((q, outs[0], cos, sin), (k, outs[1], cos, sin)), layout, inverse, blocks)
    return outs


def rotated_in_place(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, layout: Layout, *, inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """q and k rotated by the kernel where they lie."""
    rotate.rotate(((q, q, cos, sin), (k, k, cos, sin)), layout, inverse)
    return q, k


def views(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> Iterator[Tensor]:
    """Random (batch, heads, length, head_dim) as attention has them: three orders in memory."""
    batch, heads, length, width = shape
    yield torch.randn(shape, device=device).to(dtype)
    yield torch.randn(batch, length, heads, width, device=device).to(dtype).transpose(1, 2)
    packed = torch.randn(batch, length, 3, heads, width, device=device).to(dtype)
    yield packed[:, :, 1].transpose(1, 2)


def check_rotary(device: str, interpreted: bool) -> str:
    """All layouts, dtypes, strides; partial; tables by row; inverse; in place; q and k unequal."""
    same = count = 0
    sizes = ((128, 64), (80, 40), (96, 24)) if not interpreted else ((16, 8), (12, 3))
    length = 3 if interpreted else 77
    for layout, dtype, (width, pairs), inverse in itertools.product(
        LAYOUTS, DTYPES, sizes, (False, True)
    ):
        by_row = inverse
        cos, sin = tables((2, length, pairs) if by_row else (length, pairs), device)
        rotated_by = (cos, -sin if inverse else sin)
        wide = rotated_by[0].double(), rotated_by[1].double()
        queries, keys = (
            views((2, 6, length, width), dtype, device),
            views((2, 2, length, width), dtype, device),
        )
        for q, k in zip(queries, keys, strict=True):
            outs = rotated(q, k, cos, sin, layout, inverse=inverse)
            for out, x in zip(outs, (q, k), strict=True):
                close(out, reference.rotate(x.double(), *wide, layout), x, interpreted)
                assert torch.equal(out[..., 2 * pairs :], x[..., 2 * pairs :])
                same += int((out == reference.rotate(x, *rotated_by, layout)).all())
                count += 1
            placed = rotated_in_place(q, k, cos, sin, layout, inverse=inverse)
            assert all(torch.equal(a, b) for a, b in zip(placed, outs, strict=True))
    return f"{same} of {count} results have the bits of the torch path"


def check_large(device: str) -> str:
    """More than 2^31 elements: the last tokens of the last head are rotated as they should be."""
    shape = (1, 64, 2**18 + 3, 128)
    need = 2 * 2 * math.prod(shape)
    if torch.cuda.mem_get_info()[0] < need + 2**30:
        return f"left out: {need / 2**30:.0f} GiB of GPU memory are needed"
    x = torch.randn(shape, dtype=torch.bfloat16, device=device)
    cos, sin = tables((shape[2], 64), device)
    out = torch.empty_like(x)
    rotate.rotate(((x, out, cos, sin),), "half", False)
    end = (slice(None), slice(63, None), slice(-9, None))
    exact = reference.rotate(x[end].double(), cos[-9:].double(), sin[-9:].double(), "half")
    close(out[end], exact, x[end])
    return f"{x.numel():,} elements"


def check_operators(device: str, interpreted: bool) -> str:
    """`ropewalk.kernels.rotate` compiled without a graph break: values and gradients as eager's."""
    shape, pairs = ((1, 2, 5, 8), 4) if interpreted else ((2, 8, 129, 64), 32)
    q, k = (torch.randn(shape, device=device, requires_grad=True) for _ in range(2))
    cos, sin = tables((shape[2], pairs), device)

    def weighed(q: Tensor, k: Tensor) -> Tensor:
        a, b = kernels.rotate(q, k, cos, sin, "half")
        return (a.sigmoid() * b.cos()).sum()

    backend = "aot_eager" if interpreted else "inductor"
    compiled = torch.compile(weighed, fullgraph=True, backend=backend)
    found = torch.autograd.grad(compiled(q, k), (q, k))
    for ours, eager in zip(found, torch.autograd.grad(weighed(q, k), (q, k)), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
    return f"one graph, backend {backend}"


def check_embedding(device: str, interpreted: bool) -> str:
    """Gather, scale and position; wrong ids."""
    width, rows, length = (24, 50, 9) if interpreted else (1152, 5000, 700)
    ids = torch.randint(0, rows, (2, length), device=device)
    positions = torch.arange(length, device=device)
    for dtype in DTYPES:
        table = torch.randn(rows, width, device=device).to(dtype)
        added = torch.randn(length, width, device=device)
        got = lookup.lookup(ids, table, 33.94, added, positions)
        scaled = table[ids].double() * 33.94
        error = (got.double() - scaled - added.double()).abs()
        allowed = 4 * ROUNDING[dtype] * (scaled.abs() + added.abs())
        assert (error <= allowed).all(), f"lookup in {dtype}: {float(error.max())}"
    if interpreted:
        return "the assert for wrong ids is left to a GPU"
    done = subprocess.run(
        [sys.executable, "-c", WRONG_ID], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0, "an id without a row passed"
    assert "assert" in done.stderr, done.stderr[-500:]
    return "an id without a row fails an assert"


def check_attention(device: str, interpreted: bool) -> str:
    """ALiBi as features through plain SDPA, and by FlexAttention: values and gradients."""
    heads, length, width = (2, 40, 8) if interpreted else (8, 1000, 64)
    said = []
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = (
            torch.randn(1, heads, length, width, device=device).to(dtype).requires_grad_()
            for _ in range(3)
        )
        encoding, ids = Alibi(heads), torch.arange(length, device=device)
        slopes = torch.tensor(encoding.slopes, dtype=torch.float64, device=device)
        distance = (ids[:, None] - ids).double()
        bias = (-slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf)
        scores = q.double() @ k.double().mT / math.sqrt(width) + bias
        exact = scores.softmax(-1) @ v.double()
        wanted = torch.autograd.grad(exact.square().sum(), (q, k, v))
        call = AttentionCall(q=q, k=k, v=v, encoding=encoding, position_ids=ids)
        plan = prepare(call).plan
        assert plan.path == "features", plan
        # A bf16 score of 8 is off by 2^-6, and so is its weight, by as much of itself.
        bound = 0.05 if dtype == torch.bfloat16 else 1e-2 if not interpreted else 1e-4
        kernels: tuple[Kernel, ...] = ("auto",) if interpreted else ("auto", "flex")
        for kernel in kernels:
            # No other backend is allowed to step in where flash attention should serve.
            flash = dtype == torch.bfloat16 and kernel == "auto" and not interpreted
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION) if flash else nullcontext():
                out = attention(q, k, v, encoding, position_ids=ids, kernel=kernel)
            worst = float((out.double() - exact).detach().abs().max())
            assert worst <= bound, f"{kernel} {dtype}: off by {worst:.1e}"
            found = torch.autograd.grad(out.square().sum(), (q, k, v))
            for ours, true in zip(found, wanted, strict=True):
                torch.testing.assert_close(ours, true, rtol=bound, atol=4 * bound)
            said.append(f"{kernel} {str(dtype)[6:]} off by {worst:.0e}")
    return ", ".join(said)
