"""What shrinking cannot guess of single types, each with its reason.

Keys for which a class insists on a shape, or without which its default does not build; classes that
no mapping names; inputs that a forward pass insists on. None of them bears on position, beside the
dictionaries of bases without which a class does not build.
"""

from __future__ import annotations

from typing import Any

_TWO_KINDS = {
    "full_attention": {"rope_type": "default", "rope_theta": 50_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
_VISUAL = {
    "rope_type": "default",
    "rope_theta": 10_000.0,
    "partial_rotary_factor": 0.5,
    "mrope_section": [8, 12, 12],
}
UNSAID = ...
"""For a key that the class works out from others."""

_FIVE_AND_ONE = ["sliding_attention"] * 5 + ["full_attention"]

FIXED: dict[str, dict[str, Any]] = {
    # By default none of its layers attends.
    "bamba": {
        "mamba_n_heads": 4,
        "mamba_d_head": 128,
        "hidden_size": 256,
        "attn_layer_indices": [1, 3],
    },
    "chameleon": {"vocabulary_map": {"<image>": 7}},
    "cohere_compass_text": {
        "rope_parameters": _TWO_KINDS,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
    },
    "dbrx": {
        "attn_config": {"rope_theta": 10_000.0, "clip_qkv": 8, "kv_n_heads": 1},
        "ffn_config": {"ffn_hidden_size": 32},
    },
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] * 8},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "diffllama": {"num_key_value_heads": 2, "num_attention_heads": 4},
    "diffusion_gemma_text": {
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 6,
        "layer_types": _FIVE_AND_ONE,
    },
    # Counts of three parts must add up.
    "dory": {"n_input_layers": 2, "n_recurrent_layers": 4, "n_output_layers": 2},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "dots3_note_text": {"num_key_value_heads": 2},
    "gemma3n_text": {
        "num_hidden_layers": 10,
        "num_kv_shared_layers": 5,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 2,
        "intermediate_size": [32] * 10,
        "activation_sparsity_pattern": [0.0] * 10,
    },
    "gemma4_text": {
        "num_hidden_layers": 6,
        "layer_types": _FIVE_AND_ONE,
        "num_kv_shared_layers": 0,
    },
    "gemma4_unified_text": {
        "num_hidden_layers": 12,
        "layer_types": _FIVE_AND_ONE * 2,
        "num_kv_shared_layers": 0,
        "per_layer_config": UNSAID,
    },
    "glm4_moe": {"head_dim": 128},
    "glm4v_moe_text": {"head_dim": 128, "rope_parameters": _VISUAL},
    "glm4v_text": {"head_dim": 128, "rope_parameters": _VISUAL},
    "glm5_next_text": {"num_key_value_heads": 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 4]], "attention_layers": UNSAID},
    "granitemoehybrid": {
        "mamba_n_heads": 4,
        "mamba_d_head": 128,
        "hidden_size": 256,
        "layer_types": ["mamba", "attention"],
        "num_hidden_layers": 2,
    },
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl_text": {
        "head_dim": 128,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [16, 16, 16, 16],
        },
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 4},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 1, "head_dim": 128},
    # Tokens of a prompt before the text.
    "cpmant": {"prompt_length": 0},
    # An indexer by default, and no number for it.
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 256,
        "indexer_budget": 2048,
        "indexer_compress_ratio": 4,
        "hc_lowrank": 8,
    },
    "qwen3_omni_moe_text": {"head_dim": 128, "hidden_size": 256},
    "reformer": {"axial_pos_embds_dim": (64, 192), "hidden_size": 256},
    "rwkv": {"attention_hidden_size": 64, "hidden_size": 64, "intermediate_size": 64},
    "step3p5": {"sliding_window": 512},
    "xlstm": {
        "num_blocks": 2,
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "embedding_dim": 256,
        "num_heads": 2,
    },
    "zamba": {"attention_hidden_size": UNSAID, "attention_head_dim": UNSAID},
    "zamba2": dict.fromkeys(
        (
            *("attention_hidden_size", "attention_head_dim", "mamba_headdim"),
            *("kv_channels", "num_query_groups"),
        ),
        UNSAID,
    ),
    "zaya": {"num_experts": 16, "num_experts_per_tok": 1},
}

PARTS: dict[str, str] = {"pi0": "vlm_config"}
"""The part of a type that reads text, where the class does not say."""

CLASSES: dict[str, tuple[str, str]] = {
    "blip_text_model": ("blip.modeling_blip_text", "BlipTextModel"),
}
"""Module and name of classes that no mapping and no name leads to."""

EAGER = frozenset({"falcon", "git", "gpt_neo"})
"""Types whose class has a table of attention classes of its own, in which a probe has no place."""

UNBUILT = {
    "gemma4_assistant": "it drafts for another model, whose keys it reads",
    "blt": "four models in one, on bytes: a position of its global part stands for a patch",
}
"""Types that are not built, each with its reason."""


def fed(config: Any) -> dict[str, Any]:
    """Further inputs without which the class of a configuration does not run."""
    import torch

    match config.model_type:
        case "idefics":
            return {
                "image_encoder_embeddings": torch.zeros(1, 1, 1, config.vision_config.embed_dim),
                "image_attention_mask": torch.ones(1, 1, 1),
            }
        case "t5gemma2_decoder":
            return {"encoder_hidden_states": torch.zeros(1, 2, config.hidden_size)}
        case _:
            return {}
