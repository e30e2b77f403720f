"""Queries and keys rotated by the model's own function and by ours, in the model's own layout."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

SMALL: dict[str, Any] = {"num_hidden_layers": 1, "max_position_embeddings": 16_384}
HEADS = {"hidden_size": 256, "num_attention_heads": 4}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 2048,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 4.0,
    "original_max_position_embeddings": 4096,
}
MLA = {"qk_rope_head_dim": 32, "qk_nope_head_dim": 32}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "original_max_position_embeddings": 4096,
    "short_factor": [1.0 + i / 50 for i in range(32)],
    "long_factor": [1.0 + i for i in range(32)],
}

# Model type, the changes to its configuration, and whether its function takes whole heads and
# lets the channels pass that do not rotate; the others are given only what rotates.
CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("llama", {**HEADS, "rope_parameters": LLAMA3}, True),
    ("qwen3", {**HEADS, "head_dim": 64, "rope_parameters": YARN}, True),
    ("gemma2", {**HEADS, "head_dim": 64}, True),
    ("olmo2", HEADS, True),
    ("granite", {**HEADS, "rope_parameters": LINEAR}, True),
    ("falcon", HEADS, True),
    ("phi3", {**HEADS, "pad_token_id": 0, "rope_parameters": LONG}, True),
    ("gpt_oss", {**HEADS, "head_dim": 64}, True),
    ("gpt_neox", HEADS, True),
    ("nemotron", HEADS, True),
    ("phi", HEADS, False),
    ("stablelm", HEADS, False),
    ("persimmon", HEADS, False),
    ("cohere", HEADS, True),
    ("glm", {**HEADS, "head_dim": 64}, True),
    ("glm4", {**HEADS, "head_dim": 64}, True),
    ("helium", {**HEADS, "head_dim": 64}, True),
    ("ernie4_5", {**HEADS, "head_dim": 64}, True),
    ("minicpm3", {**HEADS, **MLA}, False),
    ("deepseek_v3", {**HEADS, **MLA, "rope_parameters": YARN}, False),
    ("llama4_text", {**HEADS, "head_dim": 64, "rope_parameters": LLAMA3}, True),
    ("moonshine", {"hidden_size": 160, "decoder_num_attention_heads": 4}, True),
    ("zamba2", {**HEADS, "use_mem_rope": True, "layers_block_type": ["hybrid"]}, True),
    ("zaya", {**HEADS, "head_dim": 64}, True),
    (
        "deepseek_v4",
        {"num_attention_heads": 4, "head_dim": 128, "partial_rotary_factor": 0.5},
        True,
    ),
]

IDS = [[0, 1, 2, 3, 50], [7, 7, 9, 63, 0]]


@pytest.mark.parametrize(("model_type", "changes", "whole"), CASES, ids=lambda x: str(x)[:16])
def test_rotated_queries_and_keys_are_those_of_the_model(
    model_type: str, changes: dict[str, Any], whole: bool, upstream: Any
) -> None:
    from ropewalk.positions.rotary import Rotary

    config = upstream.config_class(model_type)(**SMALL, **changes)
    _, rotary = next(iter(read_config(config.to_dict()).rotary_groups()))
    if "qk_rope_head_dim" in changes:
        # Only a part of each head is handed to the function: the part that rotates.
        rotary = replace(rotary, head_dim=rotary.rotary_dim)
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, n, 5, rotary.head_dim, generator=generator) for n in (4, 2))
    ids = torch.tensor(IDS)
    ours = Rotary(rotary).rotate(q, k, ids, length=64)
    rotating = rotary.head_dim if whole else rotary.rotary_dim
    theirs = _theirs(config, upstream, q[..., :rotating], k[..., :rotating], ids)
    for mine, other, x in zip(ours, theirs, (q, k), strict=True):
        if model_type == "deepseek_v3":
            # Its function takes pairs (2i, 2i + 1) and leaves them as (i, i + d / 2).
            mine = torch.cat((mine[..., 0::2], mine[..., 1::2]), dim=-1)
        # Their frequencies are off by up to 8e-7, times 63 positions.
        assert torch.allclose(mine[..., :rotating], other, rtol=0, atol=1e-4)
        assert torch.equal(mine[..., rotating:], x[..., rotating:])


def _theirs(config: Any, upstream: Any, q: Any, k: Any, ids: Any) -> tuple[Any, Any]:
    """q and k rotated by the functions of the model's own module."""
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    rotary = upstream.rotary_module(config)
    if config.model_type == "llama4_text":
        # Tokens before heads, and complex numbers for cos and sin.
        rotated = module.apply_rotary_emb(q.transpose(1, 2), k.transpose(1, 2), rotary(q, ids))
        return rotated[0].transpose(1, 2), rotated[1].transpose(1, 2)
    labels = {"zaya": ["hybrid"], "deepseek_v4": ["compress"]}
    cos, sin = rotary(q, ids, *labels.get(config.model_type, []))
    if config.model_type == "deepseek_v4":
        return tuple(module.apply_rotary_pos_emb(x, cos, sin) for x in (q, k))
    if config.model_type == "deepseek_v3":
        rotated = module.apply_rotary_pos_emb_interleave(q, k, cos, sin)
    else:
        rotated = module.apply_rotary_pos_emb(q, k, cos, sin)
    return rotated[0], rotated[1]
