"""Windows that reach to both sides, as encoders have them."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.dialects.hf.reader import read_config
from ropewalk.rope.spec import Window

SHAPE: dict[str, Any] = {
    "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 6,
    "max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"model_type": "modernbert", "local_attention": 128}, 128),
        (
            {
                "model_type": "gemma3_text",
                "sliding_window": 512,
                "head_dim": 256,
                "use_bidirectional_attention": True,
            },
            512,
        ),
    ],
)
def test_encoders_see_half_their_window_on_each_side(config: dict[str, Any], size: int) -> None:
    windows = {group.window for group in read_config({**SHAPE, **config}).groups}
    assert windows == {Window(size, "two-sided"), None}
    assert Window(size, "two-sided").reach == size // 2 + 1


def test_a_decoder_s_window_reaches_back() -> None:
    config = {**SHAPE, "model_type": "gemma3_text", "sliding_window": 512, "head_dim": 256}
    assert {group.window for group in read_config(config).groups} == {Window(512), None}
    assert Window(512).reach == 512


@pytest.mark.parametrize("size", [2, 5, 8])
def test_who_is_seen_is_what_transformers_has(size: int) -> None:
    torch = pytest.importorskip("torch")
    masking = pytest.importorskip("transformers.masking_utils")
    from ropewalk.attention.visible import Visible

    ids = torch.arange(12)[None]
    window = Window(size, "two-sided")
    rule = Visible(q_positions=ids, k_positions=ids, same_tokens=True, causal=False, window=window)
    ours = rule.matrix()[0, 0]
    # ModernBERT hands on half of local_attention.
    seen = masking.sliding_window_bidirectional_overlay(size // 2)
    theirs = [[bool(seen(0, 0, q, k)) for k in range(12)] for q in range(12)]
    assert ours.tolist() == theirs
