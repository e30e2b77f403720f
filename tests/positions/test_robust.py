"""What befalls modules in practice changes no encoding: casts, meta init, autocast, compiling."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ropewalk.errors import PositionError, TensorError, UsageError
from ropewalk.positions import Rotary, RotatedHeads
from ropewalk.positions.axes import Chunked
from ropewalk.positions.base import ByLayerType, PositionEncoding, exact_device
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.xpos import XPos
from ropewalk.rope import spec
from ropewalk.rope.schedules import DynamicNtk

PLAIN = spec.RotarySpec(8, 8, 10_000.0)
MAKERS: dict[str, Callable[[], PositionEncoding]] = {
    "sinusoidal": lambda: Sinusoidal(8),
    "rotary": lambda: Rotary(PLAIN),
    "partial interleaved": lambda: Rotary(spec.RotarySpec(8, 4, 10_000.0, "interleaved")),
    "sections": lambda: Rotary(spec.RotarySpec(8, 8, 10_000.0, sections=(2, 1, 1)), axes=Chunked()),
    "head 0": lambda: Rotary(PLAIN, rotated=RotatedHeads((0,), (0,))),
    "dynamic": lambda: Rotary(
        spec.RotarySpec(8, 8, 10_000.0, scaling=DynamicNtk(2.0, 16)), length=64
    ),
    "xpos": lambda: XPos(PLAIN),
    "none": NoPosition,
}
CASTS: dict[str, Callable[[PositionEncoding], object]] = {
    "half": lambda e: e.half(),
    "bfloat16": lambda e: e.to(torch.bfloat16),
    "double": lambda e: e.double(),
    "meta and back": lambda e: e.to("meta").to_empty(device="cpu"),
    "copy": lambda e: e.load_state_dict(copy.deepcopy(e).state_dict()),
}
IDS = torch.tensor([[0, 1, 2, 100, 1000], [3, 2, 1, 0, 70]])


def everything(encoding: PositionEncoding, ids: Tensor = IDS) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, 4, 5, 8, generator=generator) for _ in "qk")
    return encoding.embed(q[:, 0], ids), *encoding.rotate(q, k, ids)


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("name", MAKERS)
def test_no_cast_of_the_module_changes_a_bit(name: str, cast: str) -> None:
    untouched, encoding = MAKERS[name](), MAKERS[name]()
    CASTS[cast](encoding)
    assert all(map(torch.equal, everything(encoding), everything(untouched)))


@pytest.mark.parametrize("name", MAKERS)
def test_a_module_made_on_the_meta_device_is_whole_at_once(name: str) -> None:
    with torch.device("meta"):
        encoding = MAKERS[name]()
    encoding.to_empty(device="cpu")
    assert all(map(torch.equal, everything(encoding), everything(MAKERS[name]())))


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_stored_that_a_checkpoint_could_spoil(name: str) -> None:
    encoding = MAKERS[name]()
    assert not encoding.state_dict()
    assert not list(encoding.parameters())
    assert not list(encoding.buffers())


@pytest.mark.parametrize("name", MAKERS)
def test_shapes_are_known_on_the_meta_device(name: str) -> None:
    encoding = MAKERS[name]().to("meta")
    q = torch.empty(2, 4, 5, 8, device="meta")
    rotated, _ = encoding.rotate(q, q, IDS.to("meta"))
    assert rotated.shape == q.shape
    assert rotated.is_meta


def test_a_device_without_double_precision_has_its_angles_from_the_cpu() -> None:
    assert exact_device(torch.device("mps")) == torch.device("cpu")
    assert exact_device(torch.device("cuda:1")) == torch.device("cuda:1")


class NoDoubles(TorchFunctionMode):
    """Refuses to move fp64 to the device "meta", as mps does to itself."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.is_meta and out.dtype == torch.float64:
            raise TypeError("this device has no fp64")
        return out


@pytest.mark.parametrize("name", MAKERS)
def test_no_double_ever_reaches_a_device_that_has_none(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The meta device stands for mps: positions come from it, and results go back to it.
    home = torch.device("cpu")
    monkeypatch.setattr("ropewalk.positions.base.exact_device", lambda _: home)
    x, ids = torch.empty(2, 4, 5, 8, device="meta"), IDS.to("meta")
    move = Tensor.to

    def from_device(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # Nothing can be copied out of meta, so values stand in for what mps would give.
        if self.is_meta and args and args[0] == home:
            return torch.zeros(self.shape, dtype=self.dtype)
        return move(self, *args, **kwargs)

    monkeypatch.setattr(Tensor, "to", from_device)
    with NoDoubles():
        encoding = MAKERS[name]()
        added = encoding.embed(x[:, 0], ids)
        for out in (added, *encoding.rotate(x, x, ids)):
            assert out.is_meta
            assert out.dtype == torch.float32


@pytest.mark.parametrize("name", MAKERS)
def test_autocast_lowers_nothing(name: str) -> None:
    encoding = MAKERS[name]()
    plain = everything(encoding)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(map(torch.equal, everything(encoding), plain))


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "none"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_vectors_are_within_half_a_unit_of_exact(
    name: str, dtype: torch.dtype
) -> None:
    encoding = MAKERS[name]()
    q = torch.randn(2, 4, 5, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    for low, exact in zip(
        encoding.rotate(q, q, IDS), encoding.rotate(q.double(), q.double(), IDS), strict=True
    ):
        assert low.dtype == dtype
        unit = torch.finfo(dtype).eps * exact.abs().clamp(min=torch.finfo(dtype).tiny)
        # 1e-6: what fp32 arithmetic may add where a sum nearly cancels.
        assert ((low.double() - exact).abs() <= 0.5 * unit + 1e-6).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
@pytest.mark.parametrize("name", MAKERS)
def test_no_encoding_takes_positions_that_are_no_integers(name: str, dtype: torch.dtype) -> None:
    with pytest.raises(TensorError, match=str(dtype)):
        everything(MAKERS[name](), IDS.to(dtype))


@pytest.mark.parametrize("name", MAKERS)
def test_no_encoding_takes_a_negative_position(name: str) -> None:
    with pytest.raises(PositionError, match="holds -98 at row 0, column 3"):
        everything(MAKERS[name](), torch.where(IDS == 100, -98, IDS))


@pytest.mark.parametrize("name", MAKERS)
def test_every_encoding_describes_itself(name: str) -> None:
    row = MAKERS[name]().describe()
    assert row.parameters == "0"
    assert all((row.name, row.applied_to, row.encodes, row.beyond_trained_length))


def test_layers_of_different_types_have_their_own_encoding() -> None:
    slow = Rotary(spec.RotarySpec(8, 8, 1e6))
    by_type = ByLayerType({"full_attention": slow, "sliding.attention": NoPosition()})
    assert by_type["full_attention"] is slow
    assert isinstance(by_type["sliding.attention"], NoPosition)
    with pytest.raises(UsageError, match=r"'global'; there are full_attention, sliding"):
        _ = by_type["global"]
    with pytest.raises(UsageError, match="no layer type"):
        ByLayerType({})


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def traced(encoding: PositionEncoding) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]:
    """Everything as one graph; a break in it is an error."""

    def run(x: Tensor, q: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        return encoding.embed(x, ids), *encoding.rotate(q, q, ids)

    # The eager back end runs the captured graph as it is: what breaks a graph breaks here.
    compiled: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]] = torch.compile(
        run, fullgraph=True, backend="eager"
    )
    return compiled


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", [*MAKERS, "learned"])
def test_every_encoding_is_one_graph_and_asserts_on_the_device(name: str) -> None:
    encoding = Learned(2000, 8) if name == "learned" else MAKERS[name]()
    q = torch.randn(2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    run = traced(encoding)
    eager = encoding.embed(q[:, 0], IDS), *encoding.rotate(q, q, IDS)
    assert all(torch.equal(*pair) for pair in zip(run(q[:, 0], q, IDS), eager, strict=True))
    with pytest.raises(RuntimeError, match="position_ids must be"):
        run(q[:, 0], q, IDS - 1)


@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_learned_table_ends_in_an_assert_of_ours() -> None:
    run = traced(Learned(1000, 8))
    x = torch.zeros(2, 5, 8)
    with pytest.raises(RuntimeError, match="0 to 999; the learned table has 1000 positions"):
        run(x, x[:, None], IDS)


@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_schedule_follows_the_length_it_is_given() -> None:
    encoding = Rotary(spec.RotarySpec(8, 8, 10_000.0, scaling=DynamicNtk(2.0, 16)))
    q = torch.randn(2, 4, 5, 8, generator=torch.Generator().manual_seed(0))

    @torch.compile(fullgraph=True, backend="eager")
    def run(q: Tensor, length: int) -> tuple[Tensor, Tensor]:
        return encoding.rotate(q, q, IDS, length=length)

    for length in (16, 64, 65, 16):
        eager = encoding.rotate(q, q, IDS, length=length)
        assert all(torch.equal(*pair) for pair in zip(run(q, length), eager, strict=True))


# The code generator itself still loads what torch deprecates.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.model
@pytest.mark.usefixtures("fresh_compiler")
def test_generated_code_gives_the_same_values_and_keeps_the_asserts() -> None:
    encoding, table = Rotary(PLAIN), Learned(1001, 8)
    q = torch.randn(2, 4, 5, 8, generator=torch.Generator().manual_seed(0))

    @torch.compile(fullgraph=True)
    def run(q: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        return table.embed(q[:, 0], ids), *encoding.rotate(q, q, ids)

    eager = table.embed(q[:, 0], IDS), *encoding.rotate(q, q, IDS)
    for ours, theirs in zip(run(q, IDS), eager, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)
    for wrong in (IDS + 1, IDS - 1):
        with pytest.raises(RuntimeError, match="position_ids must be"):
            run(q, wrong)
