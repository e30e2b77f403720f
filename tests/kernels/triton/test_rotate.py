"""The rotary kernel under Triton's interpreter, held to the loop of the paper in fp64."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
from torch import Tensor

LAYOUTS = ("half", "interleaved")
# Three roundings in fp32 of numbers below 8; the interpreter truncates to bf16.
BOUNDS = {torch.float32: 3e-6, torch.float16: 2**-11, torch.bfloat16: 2**-7}


def tables(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Cosines and sines of random angles, with an amplitude of 1.25."""
    angles = 40 * torch.rand(shape, dtype=torch.float64)
    return (1.25 * angles.cos()).to(dtype), (1.25 * angles.sin()).to(dtype)


def loop(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Pair by pair, token by token: the rotation matrix of 2104.09864, equation 15, in fp64."""
    out = x.double().clone()
    pairs = cos.shape[-1]
    for batch in range(x.shape[0]):
        for token in range(x.shape[2]):
            for pair in range(pairs):
                row = cos[batch] if cos.dim() == 3 else cos
                other = sin[batch] if sin.dim() == 3 else sin
                c, s = float(row[token, pair]), float(other[token, pair])
                i, j = (pair, pair + pairs) if layout == "half" else (2 * pair, 2 * pair + 1)
                a, b = x[batch, :, token, i].double(), x[batch, :, token, j].double()
                out[batch, :, token, i] = a * c - b * s
                out[batch, :, token, j] = a * s + b * c
    return out


def rotated(
    rotate: ModuleType,
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str,
    k_tables: tuple[Tensor, Tensor] | None = None,
    *,
    inverse: bool = False,
    blocks: object = None,
) -> tuple[Tensor, Tensor]:
    """q and k rotated by the kernel into new tensors; the keys by tables of their own, if any."""
    outs = torch.empty_like(q), torch.empty_like(k)
    by = (cos, sin) if k_tables is None else k_tables
    rotate.rotate(((q, outs[0], cos, sin), (k, outs[1], *by)), layout, inverse, blocks)
    return outs


def rotated_one(
    rotate: ModuleType, x: Tensor, cos: Tensor, sin: Tensor, layout: str, *, inverse: bool = False
) -> Tensor:
    """x rotated by the kernel into a new tensor."""
    out = torch.empty_like(x)
    rotate.rotate(((x, out, cos, sin),), layout, inverse)
    return out


def check(got: Tensor, x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> None:
    assert (got.shape, got.dtype) == (x.shape, x.dtype)
    exact = loop(x, cos, sin, layout)
    bound = BOUNDS[x.dtype]
    assert ((got.double() - exact).abs() <= bound * exact.abs() + 3e-6).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize(
    ("head_dim", "pairs", "length"), [(128, 64, 3), (80, 40, 11), (96, 24, 9), (6, 3, 1), (7, 2, 5)]
)
def test_queries_and_fewer_keys_are_rotated_as_the_paper_says(
    rotate: ModuleType, layout: str, dtype: torch.dtype, head_dim: int, pairs: int, length: int
) -> None:
    q = torch.randn(2, 6, length, head_dim).to(dtype)
    k = torch.randn(2, 2, length, head_dim).to(dtype)
    cos, sin = tables(length, pairs)
    q_out, k_out = rotated(rotate, q, k, cos, sin, layout)
    check(q_out, q, cos, sin, layout)
    check(k_out, k, cos, sin, layout)
    assert torch.equal(q_out[..., 2 * pairs :], q[..., 2 * pairs :])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_of_attention_layouts_and_of_packed_projections(
    rotate: ModuleType, layout: str
) -> None:
    packed = torch.randn(2, 9, 3, 5, 16)
    q, k, _ = packed.permute(2, 0, 3, 1, 4)
    backwards = torch.randn(16, 9, 5, 2).permute(3, 2, 1, 0)
    cos, sin = tables(9, 8)
    for x, y in ((q, k), (backwards, q), (q[:, :1].expand(2, 5, 9, 16), backwards)):
        for got, given in zip(rotated(rotate, x, y, cos, sin, layout), (x, y), strict=True):
            check(got, given, cos, sin, layout)
    wanted = loop(q, cos, sin, layout), loop(k, cos, sin, layout)
    value = packed[:, :, 2].clone()
    rotate.rotate(((q, q, cos, sin), (k, k, cos, sin)), layout, False)
    for got, exact in zip((q, k), wanted, strict=True):
        torch.testing.assert_close(got.double(), exact, rtol=1e-6, atol=1e-6)
    assert torch.equal(packed[:, :, 2], value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_row_and_the_keys_may_have_tables_of_their_own(
    rotate: ModuleType, layout: str
) -> None:
    q, k = torch.randn(3, 2, 4, 10), torch.randn(3, 1, 7, 10)
    cos, sin = tables(3, 4, 4)
    k_cos, k_sin = tables(7, 4)
    q_out, k_out = rotated(rotate, q, k, cos, sin, layout, (k_cos, k_sin))
    check(q_out, q, cos, sin, layout)
    check(k_out, k, k_cos, k_sin, layout)
    # Views of one tensor: strides of their own, and one step apart.
    both = torch.stack((cos, sin), dim=-1)
    again = rotated_one(rotate, q, both[..., 0], both[..., 1], layout)
    assert torch.equal(again, q_out)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_of_every_shape_give_the_same_bits(rotate: ModuleType, layout: str) -> None:
    q, k = torch.randn(1, 3, 5, 12), torch.randn(1, 2, 5, 12)
    cos, sin = tables(5, 5)
    usual = rotated(rotate, q, k, cos, sin, layout)
    for heads, tokens in ((1, 1), (8, 1), (1, 8), (2, 4)):
        blocks = rotate.Blocks(heads, tokens, 4)
        for got, wanted in zip(
            rotated(rotate, q, k, cos, sin, layout, blocks=blocks), usual, strict=True
        ):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotating_back_gives_what_was_there(rotate: ModuleType, layout: str) -> None:
    q, k = torch.randn(1, 3, 6, 20), torch.randn(1, 1, 6, 20)
    cos, sin = (table / 1.25 for table in tables(6, 8))
    there = rotated(rotate, q, k, cos, sin, layout)
    for got, x in zip(rotated(rotate, *there, cos, sin, layout, inverse=True), (q, k), strict=True):
        torch.testing.assert_close(got, x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_inverse_is_the_gradient_by_finite_differences(rotate: ModuleType, layout: str) -> None:
    x = torch.randn(1, 1, 2, 6, dtype=torch.float64)
    weight = torch.randn_like(x)
    cos, sin = tables(2, 2, dtype=torch.float64)
    gradient = rotated_one(rotate, weight, cos, sin, layout, inverse=True)
    for index in range(x.numel()):
        step = torch.zeros(x.numel(), dtype=torch.float64)
        step[index] = 1e-3
        up, down = (
            rotated_one(rotate, x + sign * step.view_as(x), cos, sin, layout) for sign in (1, -1)
        )
        slope = float(((up - down) * weight).sum()) / 2e-3
        assert math.isclose(slope, float(gradient.view(-1)[index]), abs_tol=1e-9)


def test_all_is_one_launch(rotate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, launches = rotate.rotate_blocks, []

    class Counted:
        def __getitem__(self, grid: tuple[int, ...]) -> object:
            launches.append(grid)
            return kernel[grid]

    monkeypatch.setattr(rotate, "rotate_blocks", Counted())
    cos, sin = tables(8, 4)
    rotated(rotate, torch.randn(1, 32, 8, 8), torch.randn(1, 8, 8, 8), cos, sin, "half")
    assert len(launches) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_to_rotate_is_nothing_done(rotate: ModuleType, layout: str) -> None:
    full, empty = torch.randn(1, 2, 3, 8), torch.randn(1, 0, 3, 8)
    cos, sin = tables(3, 4)
    same, none = rotated(rotate, full, empty, cos, sin, layout)
    check(same, full, cos, sin, layout)
    assert none.shape == empty.shape
    no_token = torch.randn(2, 2, 0, 8)
    assert rotated_one(rotate, no_token, cos[:0], sin[:0], layout).shape == no_token.shape
    # No pairs at all: every channel passes.
    assert torch.equal(rotated_one(rotate, full, cos[:, :0], sin[:, :0], layout), full)


def test_operands_of_other_channels_or_tables_take_two_launches(rotate: ModuleType) -> None:
    q, k = torch.randn(1, 2, 3, 8), torch.randn(2, 1, 3, 12)
    (cos, sin), (k_cos, k_sin) = tables(3, 4), tables(3, 5)
    q_out, k_out = rotated(rotate, q, k, cos, sin, "half", (k_cos, k_sin))
    check(q_out, q, cos, sin, "half")
    check(k_out, k, k_cos, k_sin, "half")


def test_values_beside_fp64_ones_are_computed_as_they_are_alone(rotate: ModuleType) -> None:
    cos, sin = tables(3, 4)
    q, k = torch.randn(1, 2, 3, 8, dtype=torch.float64), torch.randn(1, 2, 3, 8)
    q_out, k_out = rotated(rotate, q, k, cos, sin, "half")
    assert torch.equal(k_out, rotated_one(rotate, k, cos, sin, "half"))
    torch.testing.assert_close(q_out, loop(q, cos, sin, "half"), rtol=1e-14, atol=1e-14)
