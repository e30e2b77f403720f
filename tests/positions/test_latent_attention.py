"""Latent attention: the last channels of a head are rotated; that part of the key is shared."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ScheduleError, TensorError
from ropewalk.positions.rotary import Rotary, rerotate
from ropewalk.rope import spec

pytest.importorskip("transformers")

NOPE, ROPE, HEADS = 24, 16, 4
IDS = torch.tensor([[0, 1, 2, 9, 60], [5, 4, 3, 2, 1]])


def attention(**rope: Any) -> Any:
    """One attention layer of a small DeepSeek-V3 with random weights, and its configuration."""
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek

    config = DeepseekV3Config(
        hidden_size=64, num_attention_heads=HEADS, num_key_value_heads=HEADS,
        qk_nope_head_dim=NOPE, qk_rope_head_dim=ROPE, v_head_dim=16, kv_lora_rank=32,
        q_lora_rank=None, num_hidden_layers=1, max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, **rope},
    )  # fmt: skip
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    return deepseek, config, deepseek.DeepseekV3Attention(config, 0)


def test_q_and_k_of_deepseek_v3_s_attention_are_rotated_as_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deepseek, config, layer = attention()
    seen: dict[str, torch.Tensor] = {}

    def spy(_: Any, q: Any, k: Any, v: Any, *__: Any, **___: Any) -> Any:
        seen.update(q=q, k=k)
        return torch.zeros(v.transpose(1, 2).shape), None

    monkeypatch.setattr(deepseek, "eager_attention_forward", spy)
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        cos_sin = deepseek.DeepseekV3RotaryEmbedding(config)(x, IDS)
        layer(x, cos_sin, None)
        q = layer.q_proj(x).view(2, 5, HEADS, NOPE + ROPE).transpose(1, 2)
        shared = layer.kv_a_proj_with_mqa(x)[:, None, :, -ROPE:]
    _, rotary = next(iter(read_config(config.to_dict()).rotary_groups()))
    assert (rotary.head_dim, rotary.rotary_dim, rotary.placement) == (40, 16, "last")
    # The key's rotating part is one for all heads, and given alone.
    ours, ours_shared = Rotary(rotary).rotate(q, shared, IDS)

    def as_theirs(rotated: torch.Tensor) -> torch.Tensor:
        # Their function leaves pairs (2i, 2i + 1) as (i, i + d / 2).
        return torch.cat((rotated[..., 0::2], rotated[..., 1::2]), dim=-1)

    assert torch.equal(ours[..., :NOPE], seen["q"][..., :NOPE])
    assert torch.allclose(as_theirs(ours[..., NOPE:]), seen["q"][..., NOPE:], atol=2e-5)
    theirs = seen["k"][..., NOPE:]
    assert torch.allclose(as_theirs(ours_shared).expand(theirs.shape), theirs, atol=2e-5)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_the_last_channels_rotate_as_the_first_would(layout: spec.Layout) -> None:
    x = torch.randn(1, 2, 3, 12, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[3, 1, 700]])
    last = Rotary(spec.RotarySpec(12, 8, 1e4, layout, placement="last"))
    first = Rotary(spec.RotarySpec(12, 8, 1e4, layout))
    swapped = torch.cat((x[..., 4:], x[..., :4]), dim=-1)
    mine, other = last.rotate(x, x, ids)[0], first.rotate(swapped, swapped, ids)[0]
    assert torch.equal(mine, torch.cat((other[..., 8:], other[..., :8]), dim=-1))


def test_cached_keys_move_in_the_channels_that_rotate() -> None:
    k = torch.randn(1, 1, 3, 12, generator=torch.Generator().manual_seed(0))
    ids, moved = torch.arange(3), torch.arange(3) + 100
    last = Rotary(spec.RotarySpec(12, 8, 1e4, placement="last"))
    _, was = last.rotate(k, k, ids)
    _, wanted = last.rotate(k, k, moved)
    assert torch.allclose(rerotate(was, last, last, ids, moved), wanted, atol=1e-5)
    with pytest.raises(ScheduleError, match="rotated with placement last"):
        rerotate(was, last, Rotary(spec.RotarySpec(12, 8, 1e4)), ids)


def test_a_part_given_alone_is_for_latent_attention_only() -> None:
    part = torch.zeros(1, 1, 3, 8)
    with pytest.raises(TensorError, match=r"rotates \(batch, heads, length, 12\)"):
        Rotary(spec.RotarySpec(12, 8, 1e4)).rotate(part, part, torch.arange(3))
    wrong = torch.zeros(1, 1, 3, 10)
    with pytest.raises(TensorError, match="12 or 8"):
        Rotary(spec.RotarySpec(12, 8, 1e4, placement="last")).rotate(wrong, wrong, torch.arange(3))
