"""The rotation as torch sees it: operators, gradients, compiled code, transforms, modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ropewalk.kernels import reference, rotate
from ropewalk.rope.spec import Layout

LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def alone(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """One tensor rotated, without keys beside it."""
    return rotate(x, None, cos, sin, layout)[0]


def tables(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Cosines and sines of random angles, 1.5 times as long."""
    angles = 7.0 * drawn(*shape, dtype=torch.float64, seed=9)
    return (1.5 * angles.cos()).to(dtype), (1.5 * angles.sin()).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_torch_s_own_checks_of_operators_pass(layout: Layout, dtype: torch.dtype) -> None:
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    cos, sin = tables(5, 6, dtype=wide)
    own = tables(2, 3, 6, dtype=wide)
    q = drawn(2, 5, 4, 16, dtype=dtype).transpose(1, 2).requires_grad_()
    k = drawn(2, 1, 5, 16, dtype=dtype).requires_grad_()
    later = drawn(2, 1, 3, 16, dtype=dtype).requires_grad_()
    ops = torch.ops.ropewalk
    torch.library.opcheck(ops.rotate.default, (q, k, cos, sin, None, None, layout, False))
    torch.library.opcheck(ops.rotate.default, (q, later, cos, sin, *own, layout, True))
    torch.library.opcheck(
        ops.rotate.default, (q, q.detach()[:, :0], cos, sin, None, None, layout, False)
    )
    still = q.detach().clone(), k.detach().clone()
    torch.library.opcheck(ops.rotate_.default, (*still, cos, sin, None, None, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_and_gradients_of_gradients_are_those_of_finite_differences(
    layout: Layout,
) -> None:
    q = drawn(2, 2, 3, 7, dtype=torch.float64).requires_grad_()
    k = drawn(2, 1, 3, 7, dtype=torch.float64, seed=1).requires_grad_()
    by = tables(2, 3, 3, dtype=torch.float64)

    def both(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return rotate(q, k, *by, layout)

    def one(q: Tensor) -> Tensor:
        return alone(q, *by, layout) ** 2

    assert torch.autograd.gradcheck(both, (q, k))
    assert torch.autograd.gradgradcheck(both, (q, k))
    assert torch.autograd.gradcheck(one, (q,))
    assert torch.autograd.gradgradcheck(one, (q,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fp32_gradients_are_those_that_torch_derives_from_the_reference(layout: Layout) -> None:
    by = tables(2, 9, 10)
    q, k = drawn(2, 3, 9, 24), drawn(2, 1, 9, 24, seed=1)
    weights = drawn(2, 3, 9, 24, seed=2), drawn(2, 1, 9, 24, seed=3)
    found = []
    rotations: tuple[Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], ...] = (
        lambda q, k: rotate(q, k, *by, layout),
        lambda q, k: (reference.rotate(q, *by, layout), reference.rotate(k, *by, layout)),
    )
    for rotation in rotations:
        q_leaf, k_leaf = q.clone().requires_grad_(), k.clone().requires_grad_()
        torch.autograd.backward(rotation(q_leaf, k_leaf), weights)
        found.append((q_leaf.grad, k_leaf.grad))
    for mine, derived in zip(*found, strict=True):
        assert torch.allclose(mine, derived, rtol=0.0, atol=1e-6)


def test_compiled_whole_forward_and_backward_without_a_break() -> None:
    by = tables(2, 9, 8)
    q, k = drawn(2, 3, 9, 16).requires_grad_(), drawn(2, 1, 9, 16, seed=1).requires_grad_()

    def loss(q: Tensor, k: Tensor) -> Tensor:
        rotated_q, rotated_k = rotate(q * 2.0, k, *by, "half")
        return (rotated_q * alone(rotated_k, *by, "interleaved")).sum()

    compiled: Callable[..., Tensor] = torch.compile(loss, fullgraph=True, backend="aot_eager")
    eager = torch.autograd.grad(loss(q, k), (q, k))
    for mine, other in zip(torch.autograd.grad(compiled(q, k), (q, k)), eager, strict=True):
        assert torch.allclose(mine, other, rtol=1e-6, atol=1e-6)


# torch's own code generator imports what torch calls deprecated.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
def test_compiled_to_machine_code_in_place_and_not() -> None:
    by = tables(9, 8)
    q, k = drawn(2, 9, 3, 16).transpose(1, 2), drawn(2, 1, 9, 16, seed=1)

    def rotated(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        first = rotate(q, k, *by, "half")
        return rotate(first[0] + 1.0, first[1] + 1.0, *by, "half", in_place=True)

    with torch.no_grad():
        compiled = torch.compile(rotated, fullgraph=True)(q, k)
        for mine, other in zip(compiled, rotated(q, k), strict=True):
            assert torch.allclose(mine, other, rtol=1e-6, atol=1e-6)


def test_vmap_over_anything_is_a_loop() -> None:
    q, k = drawn(3, 2, 4, 5, 12), drawn(2, 1, 3, 5, 12, seed=1)
    by, rows = tables(3, 5, 6), tables(2, 5, 6)

    def each(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return rotate(q, k, cos, sin, "half")

    found = torch.func.vmap(each, in_dims=(0, 2, 0, 0))(q, k, *by)
    for i in range(3):
        expected = each(q[i], k[:, :, i], by[0][i], by[1][i])
        for mine, other in zip(found, expected, strict=True):
            assert torch.equal(mine[i], other)
    found_one = torch.func.vmap(lambda x: alone(x, *rows, "interleaved"))(q)
    for i in range(3):
        assert torch.equal(found_one[i], alone(q[i], *rows, "interleaved"))


def test_gradients_of_single_examples_come_by_vmap_of_grad() -> None:
    q, by = drawn(4, 1, 2, 3, 8), tables(3, 4)

    def loss(q: Tensor) -> Tensor:
        return (alone(q, *by, "half") ** 3).sum()

    found = torch.func.vmap(torch.func.grad(loss))(q)
    for i in range(4):
        assert torch.allclose(found[i], torch.func.grad(loss)(q[i]), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_forward_mode_rotates_the_direction() -> None:
    q, along, by = drawn(1, 2, 3, 8), drawn(1, 2, 3, 8, seed=1), tables(3, 4)
    rotated, derivative, *_ = torch.func.jvp(lambda q: alone(q, *by, "half"), (q,), (along,))
    assert torch.equal(rotated, reference.rotate(q, *by, "half"))
    assert torch.equal(derivative, reference.rotate(along, *by, "half"))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, along)
        both = rotate(dual, q, *by, "half")
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(both[0]).tangent, derivative)
    first = tables(1, 4)

    def loss(q: Tensor) -> Tensor:
        return (alone(q, *first, "half") ** 2).sum()

    # A rotation keeps squares but for the amplitude.
    hessian = torch.func.hessian(loss)(q[:, :1, :1])
    assert torch.allclose(hessian.reshape(8, 8), torch.eye(8) * 2.0 * 1.5**2, rtol=1e-5, atol=1e-5)


def test_autocast_changes_nothing() -> None:
    q, k, by = drawn(1, 2, 3, 8), drawn(1, 1, 3, 8, seed=1), tables(3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rotated = rotate(q, k, *by, "half")
        tracked = rotate(q.clone().requires_grad_(), k, *by, "half")
    for mine, followed, x in zip(rotated, tracked, (q, k), strict=True):
        assert torch.equal(mine, reference.rotate(x, *by, "half"))
        assert torch.equal(followed, mine)


def test_what_autograd_saved_and_a_rotation_in_place_spoils_is_torch_s_error() -> None:
    weight = torch.ones(1, 2, 3, 8, requires_grad=True)
    q, k, by = drawn(1, 2, 3, 8), drawn(1, 1, 3, 8, seed=1), tables(3, 4)
    product = weight * q
    rotate(q, k, *by, "half", in_place=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_in_inference_mode_it_runs() -> None:
    by = tables(3, 4)
    with torch.inference_mode():
        q, k = drawn(1, 2, 3, 8), drawn(1, 1, 3, 8, seed=1)
        expected = rotate(q, k, *by, "half")
        rotate(q, k, *by, "half", in_place=True)
    assert torch.equal(q, expected[0])
    assert torch.equal(k, expected[1])


def test_modes_that_watch_operators_see_this_one() -> None:
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watch():  # type: ignore[no-untyped-call]
        rotate(drawn(1, 2, 3, 8), drawn(1, 1, 3, 8), *tables(3, 4), "half")
    assert "ropewalk.rotate.default" in seen


def test_shapes_are_known_without_values() -> None:
    q = torch.empty(2, 5, 4, 8, device="meta").transpose(1, 2)
    cos = torch.empty(5, 4, device="meta")
    rotated, _ = rotate(q, q, cos, cos, "half")
    assert (rotated.shape, rotated.stride(), rotated.device) == (q.shape, q.stride(), q.device)
    values = drawn(2, 5, 4, 8).transpose(1, 2)
    real, _ = rotate(values, values, *tables(5, 4), "half")
    assert real.stride() == rotated.stride()
