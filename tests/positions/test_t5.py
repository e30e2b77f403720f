"""T5's buckets and bias beside published figures and transformers."""

from __future__ import annotations

import pytest
import torch
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from ropewalk.errors import UsageError
from ropewalk.positions.t5 import T5Bias, bucket_of


@pytest.mark.parametrize(
    ("bidirectional", "key_minus_query", "bucket"),
    [
        (True, 0, 0), (True, -1, 1), (True, 1, 17), (True, -7, 7), (True, -8, 8), (True, 8, 24),
        (True, -12, 9), (True, -127, 15), (True, 128, 31),
        (False, -15, 15), (False, -16, 16), (False, -20, 17), (False, -64, 26), (False, -127, 31),
        (False, 5, 0),
    ],
)  # fmt: skip
def test_buckets_are_the_published_ones(
    bidirectional: bool, key_minus_query: int, bucket: int
) -> None:
    size = {"buckets": 32, "max_distance": 128}
    assert bucket_of(-key_minus_query, bidirectional=bidirectional, **size) == bucket
    module = T5Bias(1, bidirectional=bidirectional)
    assert int(module.bucket(torch.tensor(-key_minus_query))) == bucket


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 100), (20, 77), (64, 1000)])
def test_every_distance_has_the_bucket_of_transformers(
    bidirectional: bool, buckets: int, max_distance: int
) -> None:
    distance = torch.arange(-3 * max_distance, 3 * max_distance)
    theirs = T5Attention._relative_position_bucket(-distance, bidirectional, buckets, max_distance)
    module = T5Bias(1, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    assert torch.equal(module.bucket(distance), theirs)


def tiny(is_decoder: bool) -> tuple[T5Attention, T5Bias]:
    """transformers' attention with a random table, and ours with the same."""
    config = T5Config(d_model=12, num_heads=3, d_kv=4, is_decoder=is_decoder)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    torch.nn.init.normal_(theirs.relative_attention_bias.weight)
    ours = T5Bias(3, bidirectional=not is_decoder)
    ours.weight.data.copy_(theirs.relative_attention_bias.weight)
    return theirs, ours


@pytest.mark.parametrize("is_decoder", [False, True])
def test_the_bias_is_that_of_transformers_with_and_without_a_cache(is_decoder: bool) -> None:
    theirs, ours = tiny(is_decoder)
    ids = torch.arange(150)
    assert torch.equal(ours.score_bias(ids, ids), theirs.compute_bias(150, 150)[0])
    # One new token after 149 cached ones stands at the length of the cache.
    step = theirs.compute_bias(1, 150, past_seen_tokens=149)[0]
    assert torch.equal(ours.score_bias(ids[-1:], ids), step)


def test_the_gradient_counts_how_often_a_bucket_was_used() -> None:
    module = T5Bias(2, buckets=4, max_distance=4, bidirectional=False)
    ids = torch.arange(3)
    module.score_bias(ids, ids).sum().backward()
    # Distances 0 and below six times, 1 twice, 2 once.
    assert module.weight.grad is not None
    assert module.weight.grad.tolist() == [[6.0, 6.0], [2.0, 2.0], [1.0, 1.0], [0.0, 0.0]]


def test_buckets_survive_casts_and_the_meta_device() -> None:
    with torch.device("meta"):
        module = T5Bias(2, bidirectional=True)
    module = module.to_empty(device="cpu").to(torch.bfloat16)
    module.reset_parameters()
    distance = torch.arange(-200, 200)
    assert torch.equal(module.bucket(distance), T5Bias(2, bidirectional=True).bucket(distance))
    assert module.score_bias(distance + 200, distance + 200).dtype == torch.float32
    assert list(module.state_dict()) == ["weight"]


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"buckets": 2, "bidirectional": True}, "buckets is 2"),
        ({"buckets": 30, "bidirectional": True}, "multiple of 4"),
        ({"buckets": 31, "bidirectional": False}, "multiple of 2"),
        ({"max_distance": 8, "bidirectional": True}, "max_distance is 8"),
    ],
)
def test_sizes_without_room_for_long_distances_are_refused(
    sizes: dict[str, int], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        T5Bias(2, **sizes)  # type: ignore[arg-type]
