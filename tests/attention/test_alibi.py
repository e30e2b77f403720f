"""ALiBi through plain causal kernels, wherever queries and keys stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BloomConfig
from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor

from ropewalk.attention import attention
from ropewalk.errors import UsageError
from ropewalk.positions.alibi import Alibi
from tests.attention.conftest import plan_of

Draw = Callable[..., tuple[Tensor, Tensor, Tensor]]
SCALE = 8**-0.5
N = 37
"""Enough for features, and no multiple of anything."""


def penalty(slopes: tuple[float, ...], q_ids: Tensor, k_ids: Tensor) -> Callable[..., float]:
    """-m(i - j) for batch row, head, query and key."""

    def rule(b: int, h: int, i: int, j: int) -> float:
        return -slopes[h] * float(q_ids[b, i] - k_ids[b, j])

    return rule


def earlier(_b: int, _h: int, i: int, j: int) -> bool:
    return j <= i


def close(ours: Tensor, exact: Tensor) -> None:
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 3e-2}[ours.dtype]
    torch.testing.assert_close(ours.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("start", [0, 60_000])
def test_a_plain_row_is_the_loop(loop: Any, qkv: Draw, dtype: torch.dtype, start: int) -> None:
    q, k, v = (x.to(dtype) for x in qkv(heads=6, kv_heads=2, length=N))
    ids = (torch.arange(N) + start).expand(2, -1)
    encoding = Alibi(6)
    assert plan_of(q, k, v, encoding, position_ids=ids).path == "features"
    ours = attention(q, k, v, encoding, position_ids=ids)
    rule = penalty(encoding.slopes, ids, ids)
    close(ours, loop(q, k, v, bias=rule, seen=earlier, scale=SCALE))
    assert ours.dtype == dtype


def test_packed_rows_are_right_by_their_own_positions(loop: Any, qkv: Draw) -> None:
    q, k, v = qkv(length=N)
    lengths = ([3, N - 3], [1, 9, N - 11, 1])
    ids = torch.stack([torch.cat([torch.arange(n) for n in row]) for row in lengths])
    segment_ids = (ids == 0).cumsum(-1)
    encoding = Alibi(4)
    options: dict[str, Any] = {"position_ids": ids, "segment_ids": segment_ids}
    assert plan_of(q, k, v, encoding, **options).path == "masked features"
    ours = attention(q, k, v, encoding, **options)

    def seen(b: int, _h: int, i: int, j: int) -> bool:
        return j <= i and bool(segment_ids[b, i] == segment_ids[b, j])

    close(ours, loop(q, k, v, bias=penalty(encoding.slopes, ids, ids), seen=seen, scale=SCALE))
    # Each document is what it would be alone.
    q, k, v = (x[:1, :, 3:] for x in (q, k, v))
    alone = attention(q, k, v, encoding, position_ids=torch.arange(N - 3))
    torch.testing.assert_close(ours[:1, :, 3:], alone, rtol=1e-5, atol=1e-5)


def test_left_padding_changes_nothing_and_a_query_without_keys_gives_zeros(qkv: Draw) -> None:
    q, k, v = (x.requires_grad_() for x in qkv(batch=1, length=N))
    mask = torch.arange(N)[None] >= 2
    ids = (mask.cumsum(-1) - 1).clamp(min=0)
    padded = attention(q, k, v, Alibi(4), position_ids=ids, mask=mask)
    padded.square().sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))
    q, k, v = (x[:, :, 2:] for x in (q, k, v))
    alone = attention(q, k, v, Alibi(4), position_ids=torch.arange(N - 2))
    torch.testing.assert_close(padded[:, :, 2:], alone, rtol=1e-5, atol=1e-5)
    assert not padded[:, :, :2].any()


def test_a_cache_gives_the_rows_of_the_whole(qkv: Draw) -> None:
    q, k, v = qkv(length=N)
    ids = torch.arange(N) + 40
    whole = attention(q, k, v, Alibi(4), position_ids=ids)
    for start in (N - 1, N - 3, 2):  # one new token, a block of three, and nearly all
        part = attention(
            q[:, :, start:], k, v, Alibi(4), position_ids=ids[start:], k_position_ids=ids
        )
        torch.testing.assert_close(part, whole[:, :, start:], rtol=1e-5, atol=1e-5)


def test_cached_keys_in_another_order_are_known_by_their_positions(qkv: Draw) -> None:
    q, k, v = qkv(length=N)
    ids, order = torch.arange(N), torch.randperm(N)
    whole = attention(q, k, v, Alibi(4), position_ids=ids)
    shuffled = attention(
        q, k[:, :, order], v[:, :, order], Alibi(4), position_ids=ids, k_position_ids=ids[order]
    )
    torch.testing.assert_close(shuffled, whole, rtol=1e-5, atol=1e-5)


def test_scale_and_softmax_factor_leave_the_penalty_alone(loop: Any, qkv: Draw) -> None:
    q, k, v = qkv(length=N)
    ids, encoding = torch.arange(N).expand(2, -1), Alibi(4)
    ours = attention(q, k, v, encoding, position_ids=ids, scale=0.3, softmax_factor=1.7)
    rule = penalty(encoding.slopes, ids, ids)
    close(ours, loop(q, k, v, bias=rule, seen=earlier, scale=0.3 * 1.7))


class Largest(TorchDispatchMode):
    """The number of elements in the largest tensor any operation returns, and their names."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements, self.names = 0, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.names.add(func.__name__)
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.numel())
        return out


def test_no_matrix_of_length_x_length_forward_or_backward() -> None:
    length = 1024
    q, k, v = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
    ids = torch.arange(length)
    with Largest() as seen:
        attention(q, k, v, Alibi(2), position_ids=ids).sum().backward()
    assert seen.elements <= length * 2 * 16
    assert any("flash" in name and "backward" in name for name in seen.names)
    with Largest() as seen:
        attention(q, k, v, Alibi(2, symmetric=True), position_ids=ids).sum().backward()
    assert seen.elements >= length * length


@pytest.mark.parametrize("length", [1024, 1026, 1033])
def test_an_odd_length_is_as_exact_as_an_even_one(length: int) -> None:
    # The last block of such a length is a matrix product of a few rows or columns.
    torch.manual_seed(length)
    q, k, v = (torch.randn(1, 6, length, 40) for _ in range(3))
    ids, encoding = torch.arange(length), Alibi(6)
    ours = attention(q, k, v, encoding, position_ids=ids)
    slopes = torch.tensor(encoding.slopes).double().view(-1, 1, 1)
    bias = (-slopes * (ids[:, None] - ids)).masked_fill(ids > ids[:, None], float("-inf"))
    exact = (q.double() @ k.double().mT * 40**-0.5 + bias).softmax(-1) @ v.double()
    dense = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.float()[None])
    errors = [(x.double() - exact).abs().max() for x in (ours, dense)]
    assert errors[0] <= 2 * errors[1]


def in_long_doubles(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Any:
    """softmax(q k / sqrt(head_dim) + bias) v with 11 bits more than fp64, as a numpy array."""
    wide = np.longdouble
    if np.finfo(wide).eps > 2.0**-60:
        pytest.skip("this machine has no floating point wider than fp64 to compare with")
    rows, keys, values, added = (x.numpy().astype(wide) for x in (q, k, v, bias))
    scores = rows @ keys.swapaxes(-1, -2) / np.sqrt(wide(q.shape[-1])) + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ values / weights.sum(-1, keepdims=True)


# The second has slopes that are no powers of two, and heads of an odd width.
@pytest.mark.parametrize(
    ("encoding", "head_dim"), [(Alibi(2), 64), (Alibi(2, first_head=8, total_heads=12), 33)]
)
@pytest.mark.parametrize("length", [2048, 8192, 32_768])
def test_double_precision_errs_at_most_twice_as_much_as_the_dense_bias(
    length: int, encoding: Alibi, head_dim: int
) -> None:
    torch.manual_seed(length)
    heads, rows = 2, 32
    k_ids = torch.arange(length)
    q_ids = torch.cat((k_ids[length // 16 - 1 :: length // 16], k_ids[-rows + 16 :]))
    shapes = (rows, length, length)
    q, k, v = (torch.randn(1, heads, n, head_dim, dtype=torch.float64) for n in shapes)
    # Slopes are whole numbers of 2**-53, so these products are exact but for one rounding.
    slopes = torch.tensor(encoding.slopes, dtype=torch.float64).view(-1, 1, 1)
    gaps = q_ids[:, None] - k_ids
    bias = (-slopes * gaps).masked_fill(gaps < 0, float("-inf"))
    exact = in_long_doubles(q, k, v, bias)
    options: dict[str, Any] = {"position_ids": q_ids, "k_position_ids": k_ids}
    assert plan_of(q, k, v, encoding, **options).path == "masked features"
    ours = attention(q, k, v, encoding, **options)
    dense = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
    ours_errs, dense_errs = (abs(x.numpy() - exact) for x in (ours, dense))
    assert ours_errs.max() <= 2 * dense_errs.max() < 1e-14
    assert ours_errs.mean() <= 2 * dense_errs.mean()


def test_few_queries_have_a_dense_bias_in_double_precision_too() -> None:
    q, k, v = (torch.randn(1, 12, n, 8, dtype=torch.float64) for n in (1, 5000, 5000))
    ids, slopes = torch.arange(5000), torch.tensor(Alibi(12).slopes, dtype=torch.float64)
    options: dict[str, Any] = {"position_ids": ids[-1:], "k_position_ids": ids}
    assert "1 x 12 x 1 x 5000 in fp64" in plan_of(q, k, v, Alibi(12), **options).cost
    ours = attention(q, k, v, Alibi(12), **options)
    bias = -slopes.view(-1, 1, 1) * (4999 - ids)
    exact = (q @ k.mT * SCALE + bias).softmax(-1) @ v
    torch.testing.assert_close(ours, exact, rtol=1e-13, atol=1e-14)


def test_gradients_are_those_of_finite_differences_and_of_the_dense_bias(qkv: Draw) -> None:
    ids, encoding = torch.arange(33), Alibi(2)
    inputs = [x.double().requires_grad_() for x in qkv(batch=1, heads=2, length=33)]

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, encoding, position_ids=ids)

    def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        slopes = torch.tensor(encoding.slopes).double().view(-1, 1, 1)
        bias = (-slopes * (ids[:, None] - ids)).masked_fill(ids > ids[:, None], float("-inf"))
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])

    assert torch.autograd.gradcheck(ours, inputs, fast_mode=True)
    q, k, v = inputs
    for mine, theirs in zip(
        torch.autograd.grad(ours(q, k, v).square().sum(), inputs),
        torch.autograd.grad(dense(q, k, v).square().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


def test_autocast_does_not_round_the_penalty(loop: Any, qkv: Draw) -> None:
    q, k, v = qkv(length=N)
    ids, encoding = (torch.arange(N) + 5001).expand(2, -1), Alibi(4)
    with torch.autocast("cpu", torch.bfloat16):
        ours = attention(q, k, v, encoding, position_ids=ids)
    assert ours.dtype == torch.bfloat16
    rule = penalty(encoding.slopes, ids, ids)
    close(ours, loop(q, k, v, bias=rule, seen=earlier, scale=SCALE))


def test_one_graph_without_a_break_and_a_failed_check_is_an_error(qkv: Draw) -> None:
    q, k, v = (x.requires_grad_() for x in qkv(heads=2, length=N))
    ids, encoding = torch.arange(N), Alibi(2)

    def run(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
        return attention(q, k, v, encoding, position_ids=ids)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    out = compiled(q, k, v, ids)
    out.sum().backward()
    torch.testing.assert_close(out, run(q, k, v, ids))
    assert q.grad is not None
    with pytest.raises(RuntimeError, match="do not increase"):
        compiled(q, k, v, ids % 20)


def test_it_is_the_attention_of_bloom_with_left_padding() -> None:
    torch.manual_seed(0)
    config = BloomConfig(hidden_size=24, n_head=6, attention_dropout=0.0, hidden_dropout=0.0)
    bloom = BloomAttention(config, layer_idx=0).eval()
    x, mask = torch.randn(2, 5, 24), torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    seen = torch.ones(5, 5).tril().bool() & mask.bool()[:, None, None, :]
    lowest = torch.finfo(torch.float32).min
    additive = torch.zeros(2, 1, 5, 5).masked_fill(~seen, lowest)
    alibi = build_alibi_tensor(mask, 6, torch.float32)
    with torch.no_grad():
        theirs = bloom(x, torch.zeros_like(x), alibi=alibi, attention_mask=additive)[0]
        fused = bloom.query_key_value(x).view(2, 5, 6, 3, 4)
        q, k, v = (fused[..., part, :].transpose(1, 2) for part in range(3))
        ids = (mask.cumsum(-1) - 1).clamp(min=0)
        out = attention(q, k, v, Alibi(6), position_ids=ids, mask=mask.bool())
        ours = bloom.dense(out.transpose(1, 2).reshape(2, 5, 24))
    real = mask.bool()
    torch.testing.assert_close(ours[real], theirs[real], rtol=1e-5, atol=1e-5)


def test_without_a_causal_mask_the_causal_form_is_refused(qkv: Draw) -> None:
    q, k, v = qkv()
    with pytest.raises(UsageError, match="Alibi is right only for keys before their query"):
        attention(q, k, v, Alibi(4), position_ids=torch.arange(6), causal=False)
