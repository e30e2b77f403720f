"""ALiBi's slopes, bias and features beside the paper, other engines and double precision."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from ropewalk.errors import PositionError, TensorError, UsageError
from ropewalk.positions.alibi import Alibi, geometric_slopes
from ropewalk.rope.diagnostics import alibi_slopes

LOG2_SLOPES: dict[int, list[float]] = {
    3: [-4, -8, -2],
    6: [-2, -4, -6, -8, -1, -3],
    8: [-1, -2, -3, -4, -5, -6, -7, -8],
    12: [-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5],
    16: [-0.5 * h for h in range(1, 17)],
    40: [-0.25 * h for h in range(1, 33)] + [-0.125 - 0.25 * h for h in range(8)],
}
"""The slopes of published models, as powers of two."""

HALVES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("heads", LOG2_SLOPES)
def test_slopes_are_the_published_ones(heads: int) -> None:
    logs = [math.log2(slope) for slope in alibi_slopes(heads)]
    assert logs == pytest.approx(LOG2_SLOPES[heads], rel=1e-14)


@pytest.mark.parametrize("heads", range(1, 81))
def test_slopes_are_those_of_bloom_mpt_and_the_closed_form(heads: int) -> None:
    ours = Alibi(heads).slopes
    below = 2 ** math.floor(math.log2(heads))
    closed = [
        (2 ** (-8 / below)) ** (h + 1)
        if h < below
        else (2 ** (-4 / below)) ** (2 * (h - below) + 1)
        for h in range(heads)
    ]
    bloom = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    mpt = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0]
    assert ours == pytest.approx(closed, rel=1e-12)
    assert ours == pytest.approx(bloom.tolist(), rel=1e-6)
    assert ours == pytest.approx(mpt.tolist(), rel=1e-6)


def test_another_largest_bias_scales_the_exponents() -> None:
    theirs = -build_mpt_alibi_tensor(12, 2, alibi_bias_max=6)[:, 0, 0]
    assert Alibi(12, max_bias=6.0).slopes == pytest.approx(theirs.tolist(), rel=1e-6)


def test_the_geometric_series_is_another_rule_unless_heads_are_a_power_of_two() -> None:
    assert [math.log2(m) for m in Alibi(6, slopes="geometric").slopes] == pytest.approx(
        [-8 * h / 6 for h in range(1, 7)]
    )
    assert geometric_slopes(16) == alibi_slopes(16)
    assert geometric_slopes(12) != alibi_slopes(12)


def test_a_shard_has_the_slopes_of_its_global_heads() -> None:
    shards = [Alibi(3, first_head=first, total_heads=12) for first in range(0, 12, 3)]
    assert sum((shard.slopes for shard in shards), ()) == alibi_slopes(12)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_bias_is_the_slope_times_the_distance(symmetric: bool) -> None:
    q, k = torch.tensor([[5, 6], [0, 1]]), torch.tensor([[0, 5, 7], [0, 1, 2]])
    encoding = Alibi(3, symmetric=symmetric).half().to(torch.bfloat16)
    bias = encoding.score_bias(q, k)
    assert bias.shape == (2, 3, 2, 3)
    assert bias.dtype == torch.float32
    for b in range(2):
        for h in range(3):
            for i in range(2):
                for j in range(3):
                    gap = int(q[b, i] - k[b, j])
                    slope = 2.0 ** LOG2_SLOPES[3][h]
                    assert bias[b, h, i, j] == -slope * (abs(gap) if symmetric else gap)


def exact_product(
    encoding: Alibi, q: torch.Tensor, k: torch.Tensor, **form: object
) -> torch.Tensor:
    """What the features give when multiplied and summed in double precision."""
    features = encoding.score_features(q, k, **form)  # type: ignore[arg-type]
    assert features is not None
    return features.query.double() @ features.key.double().mT


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("heads", [8, 12])
@pytest.mark.parametrize("scale", [1.0, 64**-0.5, 80**-0.5])
def test_features_multiply_to_the_bias_but_for_a_constant_a_query(
    dtype: torch.dtype, heads: int, scale: float
) -> None:
    encoding = Alibi(heads)
    q = torch.tensor([[300, 1023, 32_767], [40_000, 99_000, 100_000]])
    k = torch.tensor([[0, 250, 299], [39_999, 65_536, 98_000]])
    product = scale * exact_product(encoding, q, k, dtype=dtype, scale=scale)
    slopes = torch.tensor(encoding.slopes, dtype=torch.float64).view(-1, 1, 1)
    bias = -slopes * (q[:, None, :, None] - k[:, None, None, :]).double()
    # The slope is carried to 16 bits or more, so a difference of biases is off by as little.
    ours, exact = product - product[..., :1], bias - bias[..., :1]
    torch.testing.assert_close(ours, exact, rtol=2.0**-16, atol=0.0)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("length", [2048, 8192, 32_768])
@pytest.mark.parametrize(("heads", "head_dim"), [(8, 64), (12, 40)])
def test_the_error_is_at_most_twice_that_of_the_dense_bias(
    dtype: torch.dtype, length: int, heads: int, head_dim: int
) -> None:
    torch.manual_seed(length)
    encoding, rows = Alibi(heads), 8
    k_ids = torch.arange(length)
    q_ids = torch.cat((k_ids[length // rows - 1 :: length // rows], k_ids[-rows:]))
    shapes = (len(q_ids), length, length)
    q, k, v = (torch.randn(1, heads, n, head_dim).to(dtype) for n in shapes)
    allowed, scale = k_ids <= q_ids[:, None], head_dim**-0.5
    slopes = torch.tensor(encoding.slopes, dtype=torch.float64).view(-1, 1, 1)
    bias = (-slopes * (q_ids[:, None] - k_ids)).masked_fill(~allowed, -math.inf)
    scores = q.double() @ k.double().mT * scale + bias
    exact = scores.softmax(-1) @ v.double()

    attend = functional.scaled_dot_product_attention
    dense = attend(q, k, v, attn_mask=bias[None].to(dtype), scale=scale)
    features = encoding.score_features(q_ids, k_ids, dtype, scale=scale)
    assert features is not None
    wide_q = torch.cat((features.query, q), -1)
    wide_k = torch.cat((features.key.expand(-1, heads, -1, -1), k), -1)
    wide_v = functional.pad(v, (0, wide_q.shape[-1] - head_dim))
    ours = attend(wide_q, wide_k, wide_v, attn_mask=allowed[None, None], scale=scale)
    ours = ours[..., :head_dim]

    for norm in (torch.amax, torch.mean):
        ours_err, dense_err = (norm((x.double() - exact).abs()) for x in (ours, dense))
        assert ours_err <= 2 * dense_err


def test_what_does_not_factor_says_so() -> None:
    ids = torch.arange(4)
    assert Alibi(2, symmetric=True).score_features(ids, ids, torch.float32) is None


def test_a_position_that_the_dtype_cannot_hold_is_refused() -> None:
    ids = torch.tensor([[3, 2**22]])
    with pytest.raises(PositionError, match="4194304 at row 0, column 1"):
        Alibi(2).score_features(ids, ids, torch.float16)
    with pytest.raises(TensorError, match="int32"):
        Alibi(2).score_features(ids, ids, torch.int32)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"heads": 0}, "heads is 0"),
        ({"heads": 4, "first_head": 4}, "total_heads is not given"),
        ({"heads": 4, "first_head": 9, "total_heads": 12}, "heads 9 to 12"),
        ({"heads": 4, "total_heads": 2}, "among the 2 heads"),
        ({"heads": 4, "max_bias": 0.0}, "max_bias is 0.0"),
        ({"heads": 4, "max_bias": math.nan}, "max_bias is nan"),
        ({"heads": 4, "slopes": "paper"}, "'paper'"),
    ],
)
def test_what_cannot_be_built_is_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Alibi(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ids", [torch.tensor([0.0]), torch.tensor([-1]), torch.zeros(2, 1, 3, dtype=torch.long)]
)
def test_positions_are_checked(ids: torch.Tensor) -> None:
    with pytest.raises(UsageError):
        Alibi(2).score_bias(ids, torch.tensor([0]))


def test_nothing_is_lost_on_the_meta_device() -> None:
    with torch.device("meta"):
        encoding = Alibi(12)
    ids = torch.arange(3, device="cpu")
    assert torch.equal(encoding.score_bias(ids, ids), Alibi(12).score_bias(ids, ids))
