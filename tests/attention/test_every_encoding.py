"""Every encoding x everything that befalls it in practice, seen through one layer of attention."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd

from ropewalk.attention import attention
from ropewalk.errors import PositionError
from ropewalk.positions.alibi import Alibi
from ropewalk.positions.axes import Axial, Chunked
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.fire import Fire
from ropewalk.positions.kerple import KerpleLog, KerplePower
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.t5 import T5Bias
from ropewalk.positions.xpos import XPos
from ropewalk.rope import spec
from ropewalk.rope.schedules import Yarn

D_MODEL, HEADS, KV_HEADS, HEAD_DIM = 32, 4, 2, 8
N = 34
"""Tokens of a row: enough for ALiBi's features, and no multiple of a block."""
PLAIN = spec.RotarySpec(HEAD_DIM, HEAD_DIM, 10_000.0)
SECTIONS = spec.RotarySpec(HEAD_DIM, HEAD_DIM, 10_000.0, sections=(2, 1, 1))

ENCODINGS: dict[str, Callable[[], PositionEncoding]] = {
    "sinusoidal": lambda: Sinusoidal(D_MODEL),
    "learned": lambda: Learned(6000, D_MODEL),
    "rotary": lambda: Rotary(PLAIN),
    "rotary, part": lambda: Rotary(spec.RotarySpec(HEAD_DIM, 4, 10_000.0, "interleaved")),
    "rotary, yarn": lambda: Rotary(
        spec.RotarySpec(HEAD_DIM, HEAD_DIM, 10_000.0, scaling=Yarn(4.0, 64))
    ),
    "sections": lambda: Rotary(SECTIONS, axes=Chunked()),
    "axial": lambda: Rotary(PLAIN, axes=Axial()),
    "xpos": lambda: XPos(PLAIN),
    "alibi": lambda: Alibi(HEADS),
    "alibi, symmetric": lambda: Alibi(HEADS, symmetric=True),
    "t5": lambda: T5Bias(HEADS, bidirectional=False, buckets=8, max_distance=20),
    "kerple, log": lambda: KerpleLog(HEADS),
    "kerple, power": lambda: KerplePower(HEADS),
    "fire": lambda: Fire(HEADS, initial_threshold=9.0),
    "none": NoPosition,
}
TRAINED = [name for name, build in ENCODINGS.items() if list(build().parameters())]
AXES = {"sections": 3, "axial": 2}

generator = torch.Generator().manual_seed(2)
WEIGHTS = [
    torch.randn(D_MODEL, heads * HEAD_DIM, generator=generator) / 6
    for heads in (HEADS, KV_HEADS, KV_HEADS)
]

every = pytest.mark.parametrize("name", ENCODINGS)


def built(name: str) -> PositionEncoding:
    torch.manual_seed(5)
    return ENCODINGS[name]()


def on_axes(name: str, ids: Tensor) -> Tensor:
    """`ids` (batch, length) as this encoding takes them: of several axes, each its own way."""
    if name not in AXES:
        return ids
    return torch.stack([ids // 3**axis for axis in range(AXES[name])])


def drawn(batch: int = 2, length: int = N) -> Tensor:
    return torch.randn(batch, length, D_MODEL, generator=torch.Generator().manual_seed(1))


def layer(
    name: str, encoding: PositionEncoding, x: Tensor, ids: Tensor, new: int = 0, **options: Any
) -> Tensor:
    """(batch, heads, tokens, head_dim); with `new`, of the last so many, the others cached."""
    placed = encoding.embed(x, ids)
    projected = (placed @ weight.to(x.dtype) for weight in WEIGHTS)
    q, k, v = (wide.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2) for wide in projected)
    ids = on_axes(name, ids)
    if new:
        options["k_position_ids"] = ids
        q, ids = q[:, :, -new:], ids[..., -new:]
    return attention(q, k, v, encoding, position_ids=ids, **options)


def row(start: int = 0, length: int = N) -> Tensor:
    return (torch.arange(length) + start).expand(2, -1)


def equal(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@every
def test_tokens_go_by_their_position_ids_and_not_by_their_places(name: str) -> None:
    encoding, x, order = built(name), drawn(), torch.randperm(N)
    options: dict[str, Any] = {}
    if name in AXES:
        # Several axes have no order of their own: who comes before whom is said by a mask.
        options = {"causal": False, "mask": (order <= order[:, None]).expand(2, 1, -1, -1)}
    shuffled = layer(name, encoding, x[:, order], row(7)[:, order], new=N, **options)
    equal(shuffled, layer(name, encoding, x, row(7))[:, :, order])


@every
def test_two_documents_in_a_row_are_what_each_is_alone(name: str) -> None:
    encoding, x = built(name), drawn()
    ids = torch.cat((row(length=13), row(length=N - 13)), dim=-1)
    packed = layer(name, encoding, x, ids, segment_ids=(torch.arange(N) >= 13).long())
    equal(packed[:, :, :13], layer(name, encoding, x[:, :13], ids[:, :13]))
    equal(packed[:, :, 13:], layer(name, encoding, x[:, 13:], ids[:, 13:]))


@every
def test_a_left_padded_row_is_what_it_is_alone(name: str) -> None:
    encoding, x = built(name), drawn()
    mask = torch.arange(N) >= torch.tensor([[5], [0]])
    ids = (mask.long().cumsum(-1) - 1).clamp(min=0)
    padded = layer(name, encoding, x, ids, mask=mask)
    equal(padded[:1, :, 5:], layer(name, encoding, x[:1, 5:], ids[:1, 5:]))
    equal(padded[1:], layer(name, encoding, x[1:], ids[1:]))


@every
def test_one_token_at_a_time_over_a_cache_is_all_at_once(name: str) -> None:
    encoding, x, ids = built(name), drawn(), row(3)
    options = {"causal": False} if name in AXES else {}
    steps = [
        layer(name, encoding, x[:, :end], ids[:, :end], new=1, **options) for end in range(1, N + 1)
    ]
    equal(torch.cat(steps, dim=2), layer(name, encoding, x, ids))


@every
def test_autocast_is_off_by_no_more_than_its_own_roundings(name: str) -> None:
    encoding, x, ids = built(name), drawn(), row(5000)
    plain = layer(name, encoding, x, ids)
    with torch.autocast("cpu", torch.bfloat16):
        cast = layer(name, encoding, x, ids)
        placed = encoding.embed(x, ids)
    assert torch.equal(placed, encoding.embed(x, ids))
    assert cast.dtype == torch.bfloat16
    torch.testing.assert_close(cast.float(), plain, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every
def test_a_cast_rounds_what_is_trained_and_nothing_else(name: str, dtype: torch.dtype) -> None:
    # Parameters rounded and widened again, in a module that was never 16 bits wide itself.
    rounded = built(name)
    with torch.no_grad():
        for parameter in rounded.parameters():
            parameter.copy_(parameter.to(dtype))
    cast = built(name).to(dtype)
    outputs = [layer(name, encoding, drawn(), row(5000)) for encoding in (cast, rounded)]
    assert torch.equal(*outputs)


@every
def test_a_module_from_the_meta_device_is_whole_once_its_parameters_are_loaded(name: str) -> None:
    real = built(name)
    with torch.device("meta"):
        encoding = ENCODINGS[name]()
    encoding.to_empty(device="cpu")
    encoding.load_state_dict(copy.deepcopy(real.state_dict()))
    assert torch.equal(*(layer(name, e, drawn(), row(40)) for e in (encoding, real)))


@pytest.mark.parametrize("name", TRAINED)
def test_parameters_drawn_after_the_meta_device_are_numbers(name: str) -> None:
    with torch.device("meta"):
        encoding: Any = ENCODINGS[name]()
    encoding.to_empty(device="cpu")
    for parameter in encoding.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    encoding.reset_parameters()
    assert all(bool(parameter.isfinite().all()) for parameter in encoding.parameters())


@every
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    encoding, ids = built(name).double(), row(2)
    x = drawn().double().requires_grad_()
    trained = [x, *encoding.parameters()]
    weights = torch.randn(2, HEADS, N, HEAD_DIM, dtype=torch.float64)

    def loss() -> Tensor:
        return (layer(name, encoding, x, ids) * weights).sum()

    gradients = torch.autograd.grad(loss(), trained)
    for value, gradient in zip(trained, gradients, strict=True):
        assert bool(gradient.any())
        # Along the gradient itself, where the change is largest.
        step = 1e-6 * gradient / gradient.norm()
        with torch.no_grad():
            value += step
            after = loss()
            value -= 2 * step
            change = (after - loss()) / 2
            value += step
        assert float(change) == pytest.approx(float((gradient * step).sum()), rel=1e-5)


@every
def test_a_wrong_position_is_an_error_that_says_where(name: str) -> None:
    ids = row().clone()
    ids[1, 3] = -98
    with pytest.raises(PositionError, match="row 1, column 3"):
        layer(name, built(name), drawn(), ids)


class Looking:
    """A back end of torch.compile that runs the graph as it is and keeps what is called in it."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def __call__(self, graph: Any, _inputs: Any) -> Any:
        nodes = [node for m in graph.modules() if hasattr(m, "graph") for node in m.graph.nodes]
        self.called |= {str(node.target) for node in nodes}
        return graph.forward


@pytest.fixture
def looking() -> Iterator[Looking]:
    torch.compiler.reset()
    yield Looking()
    torch.compiler.reset()


WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique")
"""What makes the host wait for a device."""


@every
def test_compiled_it_is_one_graph_that_waits_for_nothing_and_asserts_on_the_device(
    name: str, looking: Looking
) -> None:
    encoding, x, ids = built(name).requires_grad_(False), drawn(), row(3)

    # A break in the graph is an error.
    @torch.compile(fullgraph=True, backend=aot_autograd(fw_compiler=looking))
    def run(x: Tensor, ids: Tensor) -> Tensor:
        return layer(name, encoding, x, ids)

    equal(run(x, ids), layer(name, encoding, x, ids))
    assert not [call for call in looking.called for wait in WAITS if wait in call]
    assert any("_assert_async" in call for call in looking.called)
    with pytest.raises(RuntimeError, match="position_ids must be"):
        run(x, ids - 9)


def test_the_check_for_waiting_can_fail(looking: Looking) -> None:
    @torch.compile(fullgraph=True, backend=aot_autograd(fw_compiler=looking))
    def run(x: Tensor) -> Tensor:
        return x.nonzero()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run(torch.ones(3))
    assert any("nonzero" in call for call in looking.called)


# The code generator itself still loads what torch deprecates.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.model
@pytest.mark.usefixtures("looking")
def test_generated_code_gives_the_same_values() -> None:
    names = ("alibi", "t5", "axial")
    encodings = {name: built(name).requires_grad_(False) for name in names}
    x, ids = drawn(), row(3)

    @torch.compile(fullgraph=True)
    def run(x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        return tuple(layer(name, encodings[name], x, ids) for name in names)

    for name, ours in zip(names, run(x, ids), strict=True):
        equal(ours, layer(name, encodings[name], x, ids))
