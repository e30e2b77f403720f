"""Self-Extend on live models, against a loop over its definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ropewalk.dialects.hf import read_config
from ropewalk.extension import neighbour
from ropewalk.extension.neighbour import SelfExtend, reading, why_not
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import PositionSpec, RotarySpec

TinyModel = Callable[..., Any]
ROTARY = RotarySpec(head_dim=8, rotary_dim=8, rope_theta=100.0)


def spec_of(model: Any) -> PositionSpec:
    import json

    return read_config(json.loads(model.config.to_json_string()))


def turned(vector: torch.Tensor, by: int) -> torch.Tensor:
    """One vector of 8 channels, its halves turned by a whole number of positions."""
    angles = torch.tensor(schedule(ROTARY).inv_freq, dtype=torch.float64) * by
    a, b = vector[:4], vector[4:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()])


@pytest.mark.parametrize(
    ("group", "window", "new"), [(2, 4, 12), (3, 5, 12), (4, 1, 3), (2, 64, 12)]
)
def test_attention_is_that_of_the_distances_of_the_paper(
    group: int, window: int, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)
    tokens, how = 12, SelfExtend(group, window)
    query = torch.randn(1, 2, tokens, 8, dtype=torch.float64)
    key, value = torch.randn(2, 1, 1, tokens, 8, dtype=torch.float64)
    expected = torch.zeros(tokens, 2, 8, dtype=torch.float64)
    for head in range(2):
        for i in range(tokens):
            scores = torch.stack(
                [
                    turned(query[0, head, i], how.seen_at(i, j)) @ key[0, 0, j] / math.sqrt(8)
                    for j in range(i + 1)
                ]
            )
            expected[i, head] = scores.softmax(0) @ value[0, 0, : i + 1]
    # The model hands over what has been turned, the last `new` queries with all keys.
    queries = torch.stack(
        [torch.stack([turned(query[0, h, i], i) for i in range(tokens)]) for h in range(2)]
    )[None, :, -new:]
    keys = torch.stack([turned(key[0, 0, j], j) for j in range(tokens)])[None, None]
    monkeypatch.setattr(neighbour, "BLOCK", 5)
    out, _ = neighbour._grouped(ROTARY, how)(None, queries, keys, value, None)
    torch.testing.assert_close(out[0], expected[-new:], rtol=1e-5, atol=1e-6)


def test_within_the_window_a_model_reads_as_it_did_and_beyond_it_does_not(
    tiny_model: TinyModel,
) -> None:
    model = tiny_model()
    spec = spec_of(model)
    assert why_not(model, spec) is None
    ids = torch.arange(60)[None] * 7 % 1200
    plain = model(ids).logits
    with reading(model, spec, SelfExtend(3, 60)):
        torch.testing.assert_close(model(ids).logits, plain, rtol=1e-3, atol=1e-4)
    with reading(model, spec, SelfExtend(3, 20)):
        far = model(ids).logits
    torch.testing.assert_close(far[:, :20], plain[:, :20], rtol=1e-3, atol=1e-4)
    assert (far[:, 40:] - plain[:, 40:]).abs().max() > 1e-2
    torch.testing.assert_close(model(ids).logits, plain)


def test_a_text_read_piece_by_piece_is_the_text_read_at_once(tiny_model: TinyModel) -> None:
    model = tiny_model()
    ids = torch.arange(50)[None] * 11 % 1200
    with reading(model, spec_of(model), SelfExtend(4, 9)):
        whole = model(ids).logits
        first = model(ids[:, :33], use_cache=True)
        cache = getattr(first, "cache", None) or first.past_key_values
        name = "cache" if hasattr(first, "cache") else "past_key_values"
        rest = model(ids[:, 33:], **{name: cache}).logits
    torch.testing.assert_close(rest, whole[:, 33:], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("trained", "target", "group"), [(8192, 16384, 3), (4096, 16384, 5), (512, 513, 2)]
)
def test_groups_are_as_small_as_the_trained_distances_allow(
    trained: int, target: int, group: int
) -> None:
    how = SelfExtend.reaching(trained, target)
    assert how.group == group
    farthest = how.seen_at(target - 1, 0)
    assert farthest < trained
    finer = SelfExtend(group - 1, how.window)
    assert group == 2 or finer.seen_at(target - 1, 0) >= trained - 1


def test_models_that_rotate_otherwise_are_not_read_this_way(tiny_model: TinyModel) -> None:
    from transformers import AutoModelForCausalLM, CohereConfig

    gemma = tiny_model("gemma3", sliding_window=64)
    assert why_not(gemma, spec_of(gemma)) == "its layers see a window only"
    config = CohereConfig(
        vocab_size=300, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=0, eos_token_id=1, pad_token_id=1, initializer_range=0.2,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    assert why_not(model, spec_of(model)) == "its keys do not rotate by halves of a head"
