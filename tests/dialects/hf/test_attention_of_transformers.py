"""How channels pair and how scores are scaled, asked of transformers' own attention code."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "max_position_embeddings": 32_768,
}
MLA: dict[str, Any] = {
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 64,
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "v_head_dim": 64,
}


def yarn(weight: float) -> dict[str, Any]:
    """YaRN with an equal pair of mscale keys."""
    return {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "mscale": weight,
        "mscale_all_dim": weight,
    }


def _modelling(config: Any) -> Any:
    """The module in which a configuration's layers are written."""
    return importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))


PAIRINGS = [
    ("llama", "Llama"),
    ("qwen3", "Qwen3"),
    ("gpt_neox", "GPTNeoX"),
    ("phi3", "Phi3"),
    ("nemotron", "Nemotron"),
    ("gpt_oss", "GptOss"),
    ("cohere", "Cohere"),
    ("cohere2", "Cohere2"),
    ("glm", "Glm"),
    ("glm4", "Glm4"),
    ("glm4_moe", "Glm4Moe"),
    ("helium", "Helium"),
    ("ernie4_5", "Ernie4_5"),
]


@pytest.mark.parametrize(("model_type", "prefix"), PAIRINGS, ids=[p[0] for p in PAIRINGS])
def test_channels_pair_as_in_transformers(model_type: str, prefix: str) -> None:
    config = transformers.AutoConfig.for_model(model_type, **SMALL)
    code = _modelling(config)
    ((_, ours), *_) = read_config({**SMALL, "model_type": model_type}).rotary_groups()
    # Turning the unit vector of channel 0 shows which channel is its partner.
    unit = torch.zeros(1, 1, 1, ours.head_dim)
    unit[..., 0] = 1.0
    position = torch.ones(1, 1, dtype=torch.long)
    cos, sin = getattr(code, f"{prefix}RotaryEmbedding")(config)(unit, position)
    turned, _ = code.apply_rotary_pos_emb(unit, unit, cos, sin)
    moved = [i for i, value in enumerate(turned.flatten().tolist()) if abs(value) > 1e-6]
    partner = 1 if ours.layout == "interleaved" else ours.rotary_dim // 2
    assert moved == [0, partner]


SCALES: list[tuple[str, str, dict[str, Any]]] = [
    ("llama", "LlamaAttention", {}),
    ("gemma2", "Gemma2Attention", {"query_pre_attn_scalar": 144, "head_dim": 64}),
    ("gemma3_text", "Gemma3Attention", {"query_pre_attn_scalar": 168, "head_dim": 128}),
    ("gemma3_text", "Gemma3Attention", {}),
    ("gemma3n_text", "Gemma3nTextAttention", {"num_hidden_layers": 5, "num_kv_shared_layers": 0}),
    ("granite", "GraniteAttention", {"attention_multiplier": 0.0078125}),
    ("deepseek_v2", "DeepseekV2Attention", {**MLA, "rope_scaling": yarn(0.707)}),
    ("deepseek_v3", "DeepseekV3Attention", {**MLA, "rope_scaling": yarn(1.0)}),
    ("deepseek_v3", "DeepseekV3Attention", MLA),
    ("mistral4", "Mistral4Attention", {**MLA, "rope_scaling": yarn(1.0)}),
    ("minicpm3", "MiniCPM3Attention", MLA),
]


@pytest.mark.parametrize(
    ("model_type", "attention", "keys"), SCALES, ids=[f"{i}-{c[0]}" for i, c in enumerate(SCALES)]
)
def test_the_softmax_scale_is_that_of_transformers(
    model_type: str, attention: str, keys: dict[str, Any]
) -> None:
    given = {**SMALL, **keys}
    copy = {k: dict(v) if isinstance(v, dict) else v for k, v in given.items()}
    config = transformers.AutoConfig.for_model(model_type, **copy)
    theirs = getattr(_modelling(config), attention)(config, 0).scaling
    spec = read_config({**given, "model_type": model_type})
    ((group, rotary), *_) = spec.rotary_groups()
    ours = group.softmax.factor / math.sqrt(rotary.head_dim)
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("keys", [{}, {"rope_interleave": True}, {"rope_interleave": False}])
def test_deepseeks_switch_for_the_layout_is_read(keys: dict[str, Any]) -> None:
    config = transformers.AutoConfig.for_model("deepseek_v3", **SMALL, **MLA, **keys)
    ((_, ours),) = read_config(
        {**SMALL, **MLA, **keys, "model_type": "deepseek_v3"}
    ).rotary_groups()
    assert (ours.layout == "interleaved") is config.rope_interleave
