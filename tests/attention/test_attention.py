"""Attention under every kind of encoding, beside loops; what is refused; the order problem."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ropewalk.attention import attention
from ropewalk.attention.attend import AttentionCall
from ropewalk.errors import PositionError, RopewalkError, UsageError
from ropewalk.positions.alibi import Alibi
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.fire import Fire
from ropewalk.positions.kerple import KerpleLog, KerplePower
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.t5 import T5Bias
from ropewalk.rope.spec import RotarySpec, Window
from tests.attention.conftest import plan_of

Draw = Callable[..., tuple[Tensor, Tensor, Tensor]]
SCALE = 8**-0.5
IDS = torch.arange(6)


def none(*_at: int) -> float:
    return 0.0


BIASED: list[Callable[[], PositionEncoding]] = [
    lambda: Alibi(4, symmetric=True),
    lambda: T5Bias(4, bidirectional=True, buckets=8, max_distance=5),
    lambda: KerpleLog(4),
    lambda: KerplePower(4),
    lambda: Fire(4, initial_threshold=3.0),
]
NAMES = ["alibi", "t5", "kerple-log", "kerple-power", "fire"]


@pytest.mark.parametrize("build", BIASED, ids=NAMES)
def test_a_bias_that_does_not_factor_is_the_loop_and_trains(
    loop: Any, qkv: Draw, build: Callable[[], PositionEncoding]
) -> None:
    q, k, v = qkv(kv_heads=2)
    segment_ids = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    ids = torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5]])
    encoding = build()
    options: dict[str, Any] = {"position_ids": ids, "segment_ids": segment_ids}
    plan = plan_of(q, k, v, encoding, **options)
    assert plan.path == "dense bias"
    assert "2 x 4 x 6 x 6 in fp32, 1.125 KiB" in plan.cost
    ours = attention(q, k, v, encoding, **options)
    bias = encoding.score_bias(ids, ids)
    assert bias is not None
    exact = loop(
        q, k, v, scale=SCALE, bias=lambda b, h, i, j: float(bias.detach()[b, h, i, j]),
        seen=lambda b, _h, i, j: j <= i and segment_ids[b, i] == segment_ids[b, j],
    )  # fmt: skip
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)
    if any(True for _ in encoding.parameters()):
        assert "backward" in plan.reason or "cannot be fused" in plan.reason
        ours.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in encoding.parameters())


@pytest.mark.parametrize("build", BIASED, ids=NAMES)
@pytest.mark.parametrize("trains", [False, True])
def test_sixteen_bits_keep_the_bias_in_32(
    qkv: Draw, build: Callable[[], PositionEncoding], trains: bool
) -> None:
    inputs, encoding = qkv(), build().requires_grad_(trains)
    (q, k, v), (q16, k16, v16) = inputs, (x.to(torch.bfloat16) for x in inputs)
    # So far out that a bias in 16 bits could not tell one distance from the next.
    ids, k_ids = torch.arange(6) + 3000, torch.arange(6) + 1
    options: dict[str, Any] = {"position_ids": ids, "k_position_ids": k_ids}
    ours = attention(q16, k16, v16, encoding, **options)
    exact = attention(q, k, v, encoding, **options)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), exact, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("window", [Window(3), Window(3, "chunked")])
@pytest.mark.parametrize("causal", [False, True])
def test_windows_go_by_position(loop: Any, qkv: Draw, window: Window, causal: bool) -> None:
    q, k, v = qkv()
    ours = attention(q, k, v, NoPosition(), position_ids=IDS, window=window, causal=causal)

    def seen(_b: int, _h: int, i: int, j: int) -> bool:
        near = i // 3 == j // 3 if window.kind == "chunked" else abs(i - j) <= 2
        return near and (j <= i or not causal)

    exact = loop(q, k, v, bias=none, seen=seen, scale=SCALE)
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


def test_a_mask_may_differ_by_row_head_query_and_key(loop: Any, qkv: Draw) -> None:
    q, k, v = qkv()
    torch.manual_seed(1)
    for shape in [(2, 4, 6, 6), (1, 4, 1, 6), (2, 1, 6, 1), (1, 1, 6, 6)]:
        mask = torch.rand(shape) < 0.6
        ours = attention(q, k, v, NoPosition(), position_ids=IDS, causal=False, mask=mask)
        full = mask.expand(2, 4, 6, 6)
        seen = lambda b, h, i, j, full=full: bool(full[b, h, i, j])  # noqa: E731
        exact = loop(q, k, v, bias=none, seen=seen, scale=SCALE)
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


class Rotate(PositionEncoding):
    """Scales queries and keys by their positions, to see that each gets its own."""

    def rotate(
        self, q: Tensor, k: Tensor, position_ids: Tensor, k_position_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        keys = position_ids if k_position_ids is None else k_position_ids
        return q * position_ids[:, None], k / (1 + keys[:, None])


def test_queries_and_keys_are_rotated_by_their_own_positions(loop: Any, qkv: Draw) -> None:
    q, k, v = qkv()
    assert plan_of(q, k, v, Rotate(), position_ids=IDS).path == "sdpa"
    ours = attention(q[:, :, 4:], k, v, Rotate(), position_ids=IDS[4:], k_position_ids=IDS)
    exact = loop(
        q[:, :, 4:] * IDS[4:, None], k / (1 + IDS[:, None]), v, bias=none, scale=SCALE,
        seen=lambda _b, _h, i, j: j <= i + 4,
    )  # fmt: skip
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


def words(order: list[int], encoding: PositionEncoding) -> Tensor:
    """Self-attention over three word vectors in an order, everyone seeing everyone."""
    torch.manual_seed(3)
    vectors = torch.randn(3, 8)[order].view(1, 1, 3, 8)
    ids = torch.arange(3)
    return attention(vectors, vectors, vectors, encoding, position_ids=ids, causal=False)[0, 0]


def test_without_position_dog_bites_man_is_man_bites_dog() -> None:
    dog_bites_man, man_bites_dog = (words(o, NoPosition()) for o in ([0, 1, 2], [2, 1, 0]))
    torch.testing.assert_close(man_bites_dog, dog_bites_man.flip(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(man_bites_dog[1], dog_bites_man[1], rtol=1e-6, atol=1e-6)


def test_with_a_bias_of_distance_order_counts() -> None:
    moved = words([1, 0, 2], Alibi(1, symmetric=True))
    first = words([0, 1, 2], Alibi(1, symmetric=True))
    assert not torch.allclose(moved[[1, 0, 2]], first, atol=1e-4)


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (torch.tensor([0, 1, 2, 0, 1, 2]), "from 2 to 0 at column 3"),
        (torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]]), "from 0 to 0 at row 1, column 1"),
    ],
)
def test_packed_or_padded_rows_do_not_pass_for_plain_ones(
    qkv: Draw, ids: Tensor, sentence: str
) -> None:
    with pytest.raises(PositionError, match=sentence):
        attention(*qkv(), NoPosition(), position_ids=ids)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"position_ids": IDS[:5]}, "shape"),
        ({"position_ids": IDS.float()}, "float32"),
        ({"k_position_ids": IDS[:5]}, "positions of all keys"),
        ({"position_ids": IDS.expand(3, 2, 6), "k_position_ids": IDS}, "several axes"),
        ({"segment_ids": IDS, "k_position_ids": IDS}, "k_segment_ids"),
        ({"segment_ids": IDS.float()}, "segment_ids is torch.float32"),
        ({"window": Window(0)}, "window.size is 0"),
        ({"mask": torch.ones(2, 5, dtype=torch.bool)}, "broadcast"),
        ({"mask": torch.ones(2, 6)}, "float32"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"softmax_factor": float("nan")}, "scale is nan"),
        ({"kernel": "flash"}, "'flash'"),
    ],
)
def test_what_does_not_fit_is_refused(qkv: Draw, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RopewalkError, match=sentence):
        attention(*qkv(), NoPosition(), **{"position_ids": IDS, **options})


def test_tensors_that_do_not_go_together_are_refused(qkv: Draw) -> None:
    q, k, v = qkv()
    for wrong in [(q[0], k, v), (q, k[:, :3], v), (q, k[:, :3], v[:, :3]), (q, k[..., :4], v),
                  (q, k.half(), v)]:  # fmt: skip
        with pytest.raises(UsageError):
            attention(*wrong, NoPosition(), position_ids=IDS)
    with pytest.raises(UsageError, match="3 heads and q has 4"):
        attention(q, k, v, Alibi(3), position_ids=IDS)


@pytest.mark.parametrize("length", [0, 40])
def test_no_queries_and_no_keys_are_nothing_and_not_a_fault(length: int) -> None:
    q, k = torch.randn(1, 4, length, 8), torch.randn(1, 4, 0, 8)
    options: dict[str, Any] = {"position_ids": torch.arange(length)}
    for encoding in (Alibi(4), KerpleLog(4), NoPosition()):
        out = attention(q, k, k, encoding, k_position_ids=torch.arange(0), **options)
        assert out.shape == q.shape
        assert not out.any()


def test_heads_without_channels_are_refused() -> None:
    q = torch.randn(1, 4, 6, 0)
    with pytest.raises(UsageError, match="batch, heads and channels are 1 or more"):
        attention(q, q, q, NoPosition(), position_ids=IDS)
    one = torch.randn(1, 4, 1, 8)
    with pytest.raises(PositionError, match=r"has shape \(\)"):
        attention(one, one, one, NoPosition(), position_ids=torch.tensor(3))


def test_a_call_is_the_arguments_of_attention_by_name_with_the_same_defaults() -> None:
    asked = inspect.signature(attention).parameters.values()
    given = inspect.signature(AttentionCall).parameters.values()
    assert [(one.name, one.default) for one in asked] == [(one.name, one.default) for one in given]


class Reads(TorchDispatchMode):
    """Counts how often a value of a tensor is waited for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("build", "reads"),
    [
        (NoPosition, 1),
        (lambda: Rotary(RotarySpec(8, 8, 10_000.0)), 1),
        (lambda: T5Bias(4, bidirectional=False), 1),
        # Once more: whether its features hold positions that far.
        (lambda: Alibi(4), 2),
    ],
    ids=["none", "rope", "t5", "alibi"],
)
def test_positions_are_read_once_however_many_layers_take_them(
    build: Callable[[], PositionEncoding], reads: int, qkv: Draw
) -> None:
    q, k, v = qkv()
    ids = torch.arange(6)
    with Reads() as first:
        attention(q, k, v, build(), position_ids=ids)
    # And once for the order, which a causal mask by the order of the row needs.
    assert first.count == reads + 1
    with Reads() as later:
        attention(q, k, v, build(), position_ids=ids)
    assert later.count == 0
    with Reads() as cached:
        attention(q, k, v, build(), position_ids=ids, k_position_ids=torch.arange(6))
    assert cached.count == reads
    ids[2] = -1
    with pytest.raises(PositionError, match="holds -1 at column 2"):
        attention(q, k, v, build(), position_ids=ids)
